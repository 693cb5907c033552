"""Say what to do about a response that is not the expected one: an option, or a key of a suite, and its value."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any
from urllib.parse import parse_qs, urlsplit

from under_siege.formatting import legible, listed
from under_siege.load.body_rule import as_json
from under_siege.load.http_client import HttpResponse
from under_siege.load.request import GET, Request
from under_siege.paths import HOST
from under_siege.secrets import is_secret_name, masked

SHOWN_ROUTES = 6
SHOWN_FIELDS = 4
FORWARDED = "X-Forwarded-Proto"
_LOGIN = re.compile(r"log-?_?in|sign-?_?in|token|session|auth", re.IGNORECASE)  # in the path of a login
_LOGIN_PAGE = re.compile(r"log-?_?in|sign-?_?in|sso|oauth|auth", re.IGNORECASE)
_CSRF = re.compile(r"[cx]srf", re.IGNORECASE)
_REQUIRED = "This field is required."  # Django REST framework's word for a missing field
_PLACES = {"query": "query parameter", "header": "header", "cookie": "cookie", "path": "path parameter"}


class Source(Enum):
    """Where the user describes the requests."""

    APPLICATION = "options for an application"
    URL = "options for a URL"
    SUITE = "a suite"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request whose response is not the expected one."""

    server_url: str
    path: str
    request: Request = GET
    source: Source = Source.APPLICATION
    is_ping: bool = False
    has_setup: bool = False  # whether requests were sent before, such as a login
    routes: tuple[str, ...] = ()  # of the application, such as `/report` or `POST /orders`; empty: unknown

    def option(self, key: str) -> str:
        """Return the name of the option, or of the key of a suite, for a part of the request."""
        if self.source is Source.SUITE:
            return f"{key} under [{'ping' if self.is_ping else 'load'}]"
        options = {"path": "--ping" if self.is_ping else "--path", "headers": "--header"}
        return options.get(key, f"--{key}")

    def header(self, name: str, value: str) -> str:
        """Return the option that adds a header."""
        if self.source is Source.SUITE:
            return f'headers = {{ {name} = "{value}" }} under [load]'
        return f"--header '{name}: {value}'"

    def new_path(self, path: str) -> str:
        """Return the option that requests another path."""
        if self.source is Source.SUITE:
            return f'path = "{path}" under [{"ping" if self.is_ping else "load"}]'
        if self.source is Source.URL and not self.is_ping:
            return f"the URL {shlex.quote(self.server_url + path)}"
        return f"{self.option('path')} {shlex.quote(path)}"

    def setup(self, request: str) -> str:
        """Return the option that sends a request before the load."""
        method, path, *_ = request.split(" ", 2)
        in_suite = f'[[load.setup]], method = "{method}" and path = "{path}"'
        return in_suite if self.source is Source.SUITE else f"--setup {shlex.quote(request)}"


def remedy(answer: HttpResponse, asked: Asked) -> str:
    """Return what to do about a response with an unexpected status, as the end of a sentence; empty if unknown."""
    found = _advice(answer, asked)
    return f"; {found}" if found else ""


def _advice(answer: HttpResponse, asked: Asked) -> str:
    status = answer.status
    if 200 <= status < 300:
        option = f"status = {status} under [expect]" if asked.source is Source.SUITE else f"--status {status}"
        return "" if asked.is_ping else f"if this is right, use {option}"
    if 300 <= status < 400:
        return _of_redirect(answer, asked)
    if status in (400, 403) and _CSRF.search(_text(answer) + answer.headers.get("set-cookie", "")):
        return _of_csrf(answer, asked)
    if status in (401, 403):
        return _of_login(answer, asked)
    if status in (400, 415, 421, 422):
        return _of_content(answer, asked)
    if status in (404, 405):
        return _of_route(answer, asked)
    if status == 409 and not asked.is_ping:
        return 'if an earlier request has created it, put {n} into the path or the body, such as "name": "ann-{n}"'
    return ""


def _text(answer: HttpResponse) -> str:
    return answer.body[:10_000].decode(errors="replace")


def _of_redirect(answer: HttpResponse, asked: Asked) -> str:
    try:
        target = urlsplit(answer.headers.get("location", ""))
    except ValueError:
        return ""
    path = target._replace(scheme="", netloc="", fragment="").geturl()
    has_header = any(name.lower() == FORWARDED.lower() for name, _ in asked.request.headers)
    if target.scheme == "https" and not has_header:
        return f"if a proxy ends TLS in production, use {asked.header(FORWARDED, 'https')}"
    if path == asked.path:
        return f"this server does not read the header {FORWARDED}" if has_header else ""
    if _LOGIN_PAGE.search(target.path) or "next" in parse_qs(target.query):
        return _of_login(answer, asked, masked(target.path))
    if not path.startswith("/") or (target.netloc and target.netloc != urlsplit(asked.server_url).netloc):
        return ""
    return f"use {asked.new_path(legible(masked(path))[:200])}"


def _of_login(answer: HttpResponse, asked: Asked, page: str = "") -> str:
    """Say how to log in. `page` is the path of the login, if it is known."""
    if asked.is_ping:
        path, headers = asked.option("path"), asked.option("headers")
        return f"use {path} with a path that needs no login, or {headers} with the header that it requires"
    secret = next((name for name, _ in asked.request.headers if is_secret_name(name)), "")
    if secret:
        return f"the header {secret} was sent, but it is not accepted"
    scheme = answer.headers.get("www-authenticate", "").partition(" ")[0].lower()
    if scheme == "basic":
        return f"use {asked.header('Authorization', 'Basic ${CREDENTIALS}')}, the base64 of USER:PASSWORD"
    posts = [route.removeprefix("POST ") for route in asked.routes if route.startswith("POST /")]
    login = page or next(filter(_LOGIN.search, posts), "/login")
    got = asked.header("Authorization", "Bearer {access_token}")
    if asked.has_setup:
        return f"the requests before the load succeeded; send a value that they returned, for example with {got}"
    as_form = asked.setup(f"POST {login} username=ann&password=${{PASSWORD}}")
    if page:
        return f"log in before the load, for example with {as_form}"
    if scheme == "bearer":
        return f"log in before the load, for example with {as_form} and {got}"
    user = '{"user": "ann", "password": "${PASSWORD}"}'
    key = asked.header("Authorization", "Bearer ${TOKEN}")
    return f"log in before the load, for example with {asked.setup(f'POST {login} {user}')}, or use {key}"


def _of_csrf(answer: HttpResponse, asked: Asked) -> str:
    cookie = answer.headers.get("set-cookie", "").partition("=")[0]
    cookie = cookie if _CSRF.search(cookie) else "csrftoken"
    header = "X-XSRF-TOKEN" if "xsrf" in cookie.lower() else "X-CSRFToken"
    return (  # no colon after the name of the header, because the rest would be masked
        f"it requires a CSRF token, so get its cookie before the load with {asked.setup('GET /PAGE')}, where PAGE sets "
        f"it, and send {{{cookie}}} as the header {header} with {asked.option('headers')}"
    )


def _of_content(answer: HttpResponse, asked: Asked) -> str:
    """Say which parameter or field is missing, or that the body or the host may be wrong."""
    if missing := list(_missing(as_json(answer.body))):
        where, names = missing[0][0], [name for place, name in missing if place == missing[0][0]]
        shown = legible(masked(listed(names, SHOWN_FIELDS)))
        is_one = len(names) == 1
        if where == "query":
            query = "&".join(f"{name}=..." for name in names[:SHOWN_FIELDS])
            use = asked.new_path(f"{asked.path}{'&' if '?' in asked.path else '?'}{query}")
        elif where == "body":
            use = f"{asked.option('body')} with {'it' if is_one else 'them'}"
        else:
            use = f"{asked.option('headers')} with {'it' if is_one else 'them'}"
        if where == "body" and not names[0]:
            return f"the body is missing: use {asked.option('body')} with what it expects"
        sent = as_json(asked.request.body)
        if where == "body" and isinstance(sent, dict) and sent.keys() >= {*names}:
            form = asked.header("Content-Type", "application/x-www-form-urlencoded")
            return f"{shown} {'was' if is_one else 'were'} sent as JSON: if it expects a form, use {form}"
        kind = _PLACES.get(where, "field of the body").replace("field", "field" if is_one else "fields")
        kind = kind if is_one or where == "body" else f"{kind}s"
        return f"the {kind} {shown} {'is' if is_one else 'are'} missing: use {use}"
    if asked.is_ping or asked.request.method == GET.method or answer.status == 421:
        if answer.status not in (400, 421):
            return ""
        return f"if it refuses the host {HOST}, use {asked.option('headers')} with a Host header that it accepts"
    return f"use {asked.option('body')} with what it expects"


def _missing(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the place and the name of each missing value, as FastAPI and Django REST framework report them."""
    if not isinstance(value, Mapping):
        return
    details = value.get("detail")
    for detail in details if isinstance(details, list) else ():
        place = detail.get("loc") if isinstance(detail, Mapping) else None
        if isinstance(place, list) and place and detail.get("type") in ("missing", "value_error.missing"):
            yield str(place[0]), ".".join(map(str, place[1:]))
    for name, problems in value.items():
        if isinstance(problems, list) and _REQUIRED in problems:
            yield "body", str(name)


def _of_route(answer: HttpResponse, asked: Asked) -> str:
    allowed = re.findall(r"[A-Z]+", answer.headers.get("allow", ""))
    allowed = [method for method in allowed if method not in ("HEAD", "OPTIONS")]
    if answer.status == 405 and allowed and not asked.is_ping and asked.source is not Source.URL:
        return f"use {asked.option('method')} with {listed(allowed, word='or')}"
    method = "another method, or " if answer.status == 405 else ""
    known = f"one of its routes: {', '.join(asked.routes[:SHOWN_ROUTES])}" if asked.routes else "a path that it has"
    return f"use {method}{asked.option('path')} with {known}"
