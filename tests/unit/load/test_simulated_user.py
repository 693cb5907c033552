"""What users get from the requests of their setup, and how their requests use it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from http.cookies import SimpleCookie
from types import SimpleNamespace

import pytest

from under_siege import secrets
from under_siege.load import simulated_user
from under_siege.load.http_client import HttpResponse
from under_siege.load.request import FORM, Request, SetupRequest
from under_siege.load.simulated_user import SimulatedUser
from under_siege.record.record import CaseFailedError
from under_siege.secrets import masked

TOKEN = 'se"same/öpen=1 &2'  # noqa: S105
LOGIN = SetupRequest("/login", Request("POST", body=b"{}"))


class Server:
    """A simulated server that returns these responses, one after the other, and keeps the requests."""

    def __init__(self, *answers: tuple[int, object, dict[str, str], str]) -> None:
        self.answers = iter(answers)
        self.requests: list[tuple[str, Request]] = []

    @contextlib.asynccontextmanager
    async def open_request(
        self, _session: object, url: str, request: Request, _limit_s: float
    ) -> AsyncIterator[object]:
        self.requests.append((url, request))
        status, value, headers, cookies = next(self.answers)
        yield SimpleNamespace(
            status=status, body=json.dumps(value).encode(), headers=headers, cookies=SimpleCookie(cookies)
        )

    @staticmethod
    async def read_response(response: SimpleNamespace, _bytes: int) -> HttpResponse:
        return HttpResponse(response.status, response.body, response.headers)


@pytest.fixture(autouse=True)
def forgets_secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(secrets, "_masks", {})
    return


def set_up(monkeypatch: pytest.MonkeyPatch, server: Server, *setup: SetupRequest, number: int = 1) -> SimulatedUser:
    monkeypatch.setattr(simulated_user, "open_request", server.open_request)
    monkeypatch.setattr(simulated_user, "read_response", server.read_response)
    user = SimulatedUser(number, has_setup=True)
    asyncio.run(user.set_up(None, "http://a", setup))  # type: ignore[arg-type]
    return user


def test_values_of_an_answer_get_into_requests_as_each_part_of_them_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    user = set_up(monkeypatch, Server((200, {"data": {"token": TOKEN}, "id": 7}, {"x-key": "k"}, "")), LOGIN)
    url, sent = user.filled("http://a/{id}?t={data.token}", Request("POST", (("K", "{x-key}"),), b"{data.token}"))
    assert url == "http://a/7?t=se%22same%2F%C3%B6pen%3D1%20%262"
    assert (sent.headers, sent.body.decode()) == ((("K", "k"),), TOKEN)
    as_json = Request("POST", (("Content-Type", "application/json"),), b'{"t": "{data.token}", "id": {id}}')
    assert json.loads(user.filled("http://a", as_json)[1].body) == {"t": TOKEN, "id": 7}
    form = Request("POST", (("Content-Type", FORM),), b"t={data.token}")
    assert user.filled("http://a", form)[1].body == b"t=se%22same%2F%C3%B6pen%3D1+%262"


def test_later_requests_of_the_setup_use_the_cookies_and_values_of_earlier_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server((200, None, {}, "csrf=abc; Path=/"), (302, None, {}, "session=xyz; HttpOnly"))
    form = SetupRequest("/login/", Request("POST", body=b"t={csrf}&u={user}"))
    user = set_up(monkeypatch, server, SetupRequest("/login/"), form, number=3)
    assert server.requests[1][1].body == b"t=abc&u=3"
    assert dict(server.requests[1][1].headers) == {"Cookie": "csrf=abc"}
    sent = user.filled("http://a/me", Request(headers=(("cookie", "theme=dark"),)))[1]
    assert sent.headers == (("Cookie", "theme=dark; csrf=abc; session=xyz"),)


def test_a_cookie_that_the_server_deletes_is_not_sent_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server((200, None, {}, "a=1"), (200, None, {}, 'a=""; Max-Age=0'))
    assert set_up(monkeypatch, server, LOGIN, LOGIN).filled("http://a/", Request())[1].headers == ()


def test_the_last_answer_that_has_a_value_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server((200, {"token": "first", "id": 1}, {}, ""), (200, {"token": "last", "id": None}, {}, ""))
    assert set_up(monkeypatch, server, LOGIN, LOGIN).filled("/{token}/{id}", Request())[0] == "/last/1"


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ((401, {"detail": "wrong"}, {}, ""), None, "returned 401"),
        ((307, None, {"location": "/login/"}, ""), None, "307 to '/login/'"),
        ((200, None, {}, ""), 201, "expected 201"),
    ],
)
def test_a_request_that_fails_ends_the_setup(
    answer: tuple[int, object, dict[str, str], str], status: int | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CaseFailedError, match="setup: POST /login") as failed:
        set_up(monkeypatch, Server(answer), SetupRequest("/login", Request("POST"), status))
    assert (failed.value.code, said in str(failed.value)) == ("setup_failed", True)


@pytest.mark.parametrize("status", [200, 201, 204, 302, 303])
def test_a_login_that_redirects_to_another_page_succeeds(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    set_up(monkeypatch, Server((status, None, {"location": "/me"}, "")), LOGIN)


def test_a_value_that_no_answer_has_is_named_with_the_fields_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    user = set_up(monkeypatch, Server((200, {"data": {"token": TOKEN}}, {}, "sid=secret-value")), LOGIN)
    with pytest.raises(CaseFailedError, match=r"\{token\} is in none") as failed:
        user.filled("/{token}", Request())
    assert "the fields data.token and the cookies sid" in str(failed.value)
    assert TOKEN not in str(failed.value)
    assert "secret-value" not in str(failed.value)


def test_messages_hide_what_the_setup_gave_to_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    user = set_up(monkeypatch, Server((200, {"ticket": "long-enough", "id": 77}, {}, "sid=cookie-value")), LOGIN)
    user.filled("/{ticket}/{id}", Request())
    user.hide_secrets()
    assert masked("long-enough, cookie-value, 77") == "***, ***, 77"


def test_a_cookie_in_quotes_is_masked_without_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    user = set_up(monkeypatch, Server((200, {}, {}, 'sid="k3 x9Lq77Zs51"')), LOGIN)
    user.hide_secrets()
    assert "x9Lq" not in masked("no user for k3 x9Lq77Zs51")
    assert "x9Lq" not in masked("no user for k3+x9Lq77Zs51")
