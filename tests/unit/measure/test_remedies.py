"""What to do about a response with an unexpected status."""

import json
from typing import Any

import pytest

from under_siege.load.http_client import HttpResponse, text_of_html
from under_siege.load.request import GET, Request
from under_siege.measure.remedies import Asked, Source, remedy
from under_siege.secrets import masked

SERVER = "http://127.0.0.1:8000"
POST = Request("POST", (("Content-Type", "application/json"),), b"{}")
JSON_TYPE = {"content-type": "application/json"}
ROUTES = ("/report", "POST /orders", "POST /api/v1/login/access-token")


def missing(*places: list[str]) -> bytes:
    """Return the response of FastAPI to a request without these parameters."""
    details = [{"type": "missing", "loc": loc, "msg": "Field required", "input": None} for loc in places]
    return json.dumps({"detail": details}).encode()


def advice(
    status: int, body: bytes = b"", request: Request = GET, headers: dict[str, str] | None = None, **asked: Any
) -> str:
    return remedy(HttpResponse(status, body, headers or {}), Asked(SERVER, "/report", request, **asked))


SUITE = {"source": Source.SUITE}
LOCATION = {"location": f"{SERVER}/items/"}
ADVICE: dict[str, tuple[str, str]] = {
    "created": (advice(201), "--status 201"),
    "created, in a suite": (advice(201, **SUITE), "status = 201 under [expect]"),
    "login": (advice(401), """--setup 'POST /login {"user": "ann", "password": "${PASSWORD}"}'"""),
    "login, in a suite": (advice(401, **SUITE), '[[load.setup]], method = "POST" and path = "/login"'),
    "login with a token": (
        advice(401, headers={"www-authenticate": "Bearer"}, routes=ROUTES),
        "--setup 'POST /api/v1/login/access-token username=ann&password=${PASSWORD}' and "
        "--header 'Authorization: Bearer {access_token}'",
    ),
    "login by HTTP": (
        advice(401, headers={"www-authenticate": 'Basic realm="x"'}),
        "--header 'Authorization: Basic ${CREDENTIALS}'",
    ),
    "unused login": (advice(401, has_setup=True), "--header 'Authorization: Bearer {access_token}'"),
    "created before": (advice(409, b"exists", POST), "put {n} into the path or the body"),
    "wrong token": (advice(401, request=Request(headers=(("Authorization", "Bearer 7"),))), "Authorization was sent"),
    "login for a health check": (advice(403, is_ping=True), "--ping with a path that needs no login"),
    "login page": (
        advice(302, headers={"location": "/accounts/login/?next=/report"}),
        "--setup 'POST /accounts/login/ username=",
    ),
    "forbidden": (advice(403, b'{"detail": "Not authenticated"}'), "--setup 'POST /login "),
    "csrf": (
        advice(403, b"<h1>CSRF verification failed. Request aborted.</h1>", POST),
        "--setup 'GET /PAGE', where PAGE sets it, and send {csrftoken} as the header X-CSRFToken",
    ),
    "csrf cookie": (
        advice(403, b"no", POST, {"set-cookie": "XSRF-TOKEN=7; Path=/"}),
        "send {XSRF-TOKEN} as the header X-XSRF-TOKEN",
    ),
    "query": (
        advice(422, missing(["query", "size"])),
        "query parameter size is missing: use --path '/report?size=...'",
    ),
    "several in the query": (
        advice(422, missing(["query", "size"], ["query", "page"])),
        "query parameters size and page are missing: use --path '/report?size=...&page=...'",
    ),
    "query of a url": (
        advice(422, missing(["query", "size"]), source=Source.URL),
        f"the URL '{SERVER}/report?size=...'",
    ),
    "query in a suite": (advice(422, missing(["query", "size"]), **SUITE), 'path = "/report?size=..." under [load]'),
    "field": (
        advice(422, missing(["body", "prompt"]), POST),
        "field of the body prompt is missing: use --body with it",
    ),
    "form": (
        advice(422, missing(["body", "name"]), Request("POST", body=b'{"name": "ann"}')),
        "if it expects a form, use --header 'Content-Type: application/x-www-form-urlencoded'",
    ),
    "no body": (advice(422, missing(["body"]), POST), "the body is missing: use --body"),
    "header": (advice(422, missing(["header", "x-token"])), "header x-token is missing: use --header with it"),
    "field of a form of Django": (
        advice(400, b'{"name": ["This field is required."], "size": ["A valid integer is required."]}', POST),
        "field of the body name is missing",
    ),
    "another value": (
        advice(422, b'{"detail": [{"type": "int_parsing", "loc": ["body", "n"]}]}', POST),
        "use --body with",
    ),
    "host": (advice(400, b"Invalid host header"), "use --header with a Host header"),
    "host, in a suite": (advice(421, **SUITE), "use headers under [load] with a Host header"),
    "no route": (advice(404, routes=ROUTES), "use --path with one of its routes: /report, POST /orders"),
    "no health check": (advice(404, is_ping=True), "use --ping with a path that it has"),
    "method": (advice(405, headers={"allow": "POST, OPTIONS"}), "use --method with POST"),
    "unknown method": (advice(405), "use another method, or --path with"),
    "slash": (advice(307, headers=LOCATION), "use --path /items/"),
    "slash of a health check": (advice(307, headers=LOCATION, is_ping=True), "use --ping /items/"),
    "slash in a suite": (advice(307, headers=LOCATION, **SUITE), 'use path = "/items/" under [load]'),
    "slash of a url": (advice(307, headers=LOCATION, source=Source.URL), f"use the URL {SERVER}/items/"),
    "https": (
        advice(307, headers={"location": "https://127.0.0.1/report"}),
        "use --header 'X-Forwarded-Proto: https'",
    ),
    "https, in a suite": (
        advice(307, headers={"location": "https://127.0.0.1/report"}, **SUITE),
        'headers = { X-Forwarded-Proto = "https" } under [load]',
    ),
}


@pytest.mark.parametrize("what", ADVICE)
def test_a_refused_request_has_a_remedy(what: str) -> None:
    found, expected = ADVICE[what]
    assert expected in found
    assert masked(found) == found, "the message would lack a part of the advice"


@pytest.mark.parametrize(
    "found",
    [
        advice(500),
        advice(503),
        advice(301, headers={"location": "http://elsewhere/"}),
        advice(307, headers={"location": "http://[/"}),
    ],
)
def test_there_is_no_remedy_for_an_unknown_cause(found: str) -> None:
    assert found == ""


def test_a_parameter_with_a_secret_or_control_characters_is_shown_masked() -> None:
    found = advice(422, missing(["body", "\x1b[31mname"]), POST)
    assert found.isprintable()


PAGES = [
    (
        "<!doctype html>\n<html lang=en>\n<title>401 Unauthorized</title>\n<p>No &amp; never.</p>",
        "401 Unauthorized: No & never.",
    ),
    ("<html><head><style>p { color: red }</style></head><body>Gone</body></html>", "Gone"),
    ("<!DOCTYPE html><html><head><title>CSRF</title><script>x()", "CSRF"),
    ('{"html": "<html>"}', None),
    ("plain", None),
]


@pytest.mark.parametrize(("page", "text"), PAGES)
def test_a_page_is_shown_with_its_title_and_text(page: str, text: str | None) -> None:
    assert text_of_html(page) == text


def test_a_message_quotes_the_text_of_a_page() -> None:
    answer = HttpResponse(403, b"<p>Not <b>here</b></p>" + b"<p>x</p>" * 1000, {"content-type": "text/html"})
    assert answer.described().startswith(f"403 with {len(answer.body)} bytes of HTML 'Not here x x")
    assert len(answer.described()) < 200
