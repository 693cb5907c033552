"""Simulate a user: the requests of its setup, such as a login, and its requests with their values and cookies."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from http.cookies import Morsel
from urllib.parse import quote, quote_plus

import aiohttp

from under_siege.load.body_rule import as_json, values_at
from under_siege.load.fresh_values import body_text, fresh_value, names_in_request, replaced
from under_siege.load.http_client import HttpResponse, case_fails, open_request, read_response
from under_siege.load.request import FORM, Request, SetupRequest
from under_siege.record.record import CaseFailedError
from under_siege.secrets import hide, is_secret_name

LIMIT_S = 60.0  # timeout of a request of the setup
ARRIVING = 25  # number of users who send the requests of an open loop, in turn
_LONG = 8  # shorter values are hidden only if their name is that of a secret, because they occur in other text, too
_MOST_NAMED = 8  # maximum number of fields to name in an error
_MOVED = (301, 307, 308)  # statuses of a redirect after which the request itself has to be repeated elsewhere


class SimulatedUser:
    """A user, counted from 1, and what its setup has returned, which is kept only as long as the user exists."""

    def __init__(self, number: int = 1, *, has_setup: bool = False) -> None:
        self._number = number
        self._has_setup = has_setup
        self._answers: list[tuple[str, HttpResponse, dict[str, str]]] = []  # with their cookies; the last comes first
        self._cookies: dict[str, str] = {}  # as they are sent
        self._secrets: set[str] = set()

    async def set_up(self, session: aiohttp.ClientSession, url: str, setup: Sequence[SetupRequest]) -> None:
        """Send the requests of the setup to the server at this URL, one after the other.

        Raises:
            aiohttp.ClientConnectorError: no connection could be established.
            CaseFailedError: a request fails, or needs a value that no earlier answer contains.
        """
        for one in setup:
            sent_url, request = self.filled(url + one.path, one.request)
            name = f"setup: {request.method} {one.path}"
            with case_fails(name, f"{name} was not answered", LIMIT_S):
                async with open_request(session, sent_url, request, LIMIT_S) as response:
                    answer, morsels = await read_response(response, b""), dict(response.cookies)
            is_right = answer.status < 400 and answer.status not in _MOVED
            if not (answer.status == one.status if one.status else is_right):
                self.hide_secrets()
                expected = f"expected {one.status or 'a status below 400'}"
                what_to_do = "use this path" if answer.status in _MOVED and not one.status else expected
                raise CaseFailedError("setup_failed", f"{name} returned {answer.described()}; {what_to_do}")
            for key, morsel in morsels.items():
                self._take_cookie(key, morsel)
            values = {key: morsel.value for key, morsel in morsels.items()}
            self._answers.insert(0, (f"{request.method} {one.path}", answer, values))

    def _take_cookie(self, name: str, morsel: "Morsel[str]") -> None:
        self._cookies.pop(name, None)
        if morsel.value and morsel["max-age"] != "0":
            self._cookies[name] = morsel.coded_value
            for value in (morsel.coded_value, morsel.value):  # with and without quotes
                self._note_secret(name, value)

    def filled(self, url: str, request: Request) -> tuple[str, Request]:
        """Return the URL and the request with a value for each placeholder, and with the cookies of this user.

        A placeholder that occurs several times in a request has the same value each time.

        Raises:
            CaseFailedError: no answer of the setup contains a value.
        """
        names = names_in_request(url, request, has_setup=self._has_setup)
        if not names and not self._cookies:
            return url, request
        values = {name: fresh_value(name, self._number) or self._value(name) for name in names}

        def spelled(text: str, spelling: Callable[[str], str]) -> str:
            return replaced(text, lambda name: spelling(values[name]), has_setup=self._has_setup)

        headers = [(name, spelled(value, _in_header)) for name, value in request.headers]
        if self._cookies:
            own = [value for name, value in headers if name.lower() == "cookie"]
            cookies = "; ".join([*own, *(f"{name}={value}" for name, value in self._cookies.items())])
            headers = [*(header for header in headers if header[0].lower() != "cookie"), ("Cookie", cookies)]
        body = body_text(request)
        sent = spelled(body, _spelling_in(request.content_type)).encode() if body else request.body
        return spelled(url, _in_path), replace(request, headers=tuple(headers), body=sent)

    def hide_secrets(self) -> None:
        """Mask what the setup gave to this user in everything that this process shows from now on."""
        for value in self._secrets:
            hide(value)

    def _value(self, name: str) -> str:
        """Return the value in the last answer that has it: a field of its JSON, one of its cookies or headers."""
        for _, answer, cookies in self._answers:
            fields = filter(None, map(_as_text, values_at(as_json(answer.body), name.split("."))))
            found = next(fields, None) or cookies.get(name) or answer.headers.get(name.lower())
            if found:
                self._note_secret(name, found)
                return found
        raise CaseFailedError("setup_failed", f"setup: {{{name}}} is in none of its answers{self._known()}")

    def _note_secret(self, name: str, value: str) -> None:
        if len(value) >= _LONG or is_secret_name(name):
            self._secrets |= {value, _in_path(value), _in_json(value), quote_plus(value)}

    def _known(self) -> str:
        """Name what the last answer of the setup contains, without its values."""
        if not self._answers:
            return ", because no request precedes it"
        sent, answer, cookies = self._answers[0]
        known = {"fields": list(_paths(as_json(answer.body))), "cookies": list(cookies)}
        listed = [f"the {kind} {', '.join(names[:_MOST_NAMED])}" for kind, names in known.items() if names]
        return f": {sent} returned {answer.status} with {' and '.join(listed) or 'neither JSON fields nor cookies'}"


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _paths(value: object, prefix: str = "") -> Iterator[str]:
    """Yield the paths of the values in a JSON object, also those in nested objects."""
    for name, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, dict) and item:
            yield from _paths(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _in_header(value: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise CaseFailedError("setup_failed", "setup: a value for a header has other characters than those of ASCII")
    return value


def _in_path(value: str) -> str:
    return quote(value, safe="")


def _in_json(value: str) -> str:
    return json.dumps(value)[1:-1]


def _spelling_in(content_type: str) -> Callable[[str], str]:
    """Return how a value is written in a body of this type."""
    if "json" in content_type:
        return _in_json
    return quote_plus if content_type.startswith(FORM) else str
