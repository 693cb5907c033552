"""Expected responses: how they are compared, and how a wrong response is described."""

from dataclasses import replace
from pathlib import Path

import pytest

from under_siege.load.body_rule import ANY, JSON, SAME, BodyRule
from under_siege.load.http_client import HttpResponse
from under_siege.load.streams import error_instead_of
from under_siege.suite.expected_response import Expectation, Files, KeyOrder

RIGHT = b'{"a": 1,    "b": [2, 3]}'
COMPACT = b'{"a":1,"b":[2,3]}'
BODIES = (RIGHT, COMPACT, b'{"a": 1}', b"[" * 99_999)


@pytest.mark.parametrize(("mode", "fitting"), [(SAME, [RIGHT]), (JSON, [RIGHT, COMPACT]), (ANY, [*BODIES])])
def test_bodies_are_compared_as_the_suite_specifies(mode: str, fitting: list[bytes]) -> None:
    expected = Expectation(RIGHT, 0.1, 0.0, 201, BodyRule(mode))
    assert [body for body in BODIES if expected.fits(201, body)] == fitting
    assert not any(expected.fits(200, body) for body in BODIES)
    assert expected.size_bytes == (len(RIGHT) if mode == SAME else -1)


JSON_ERRORS = [
    b'{"error": "overloaded"}',
    b'{"error": true}',
    b'{"data": null, "errors": [{"message": "no such field"}]}',
    b'{"jsonrpc": "2.0", "id": 1, "result": {"isError": true, "content": []}}',
]
NO_ERRORS = [b'{"error": null}', b'{"error": false, "errors": []}', b'{"error": ""}', b'{"error": 0.2}', b"an error"]
JSON_TYPE, EVENTS_TYPE = {"content-type": "application/json"}, {"content-type": "text/event-stream; charset=utf-8"}


@pytest.mark.parametrize("as_events", [False, True])
def test_a_response_that_reports_an_error_is_wrong_whatever_the_rule(*, as_events: bool) -> None:
    headers = EVENTS_TYPE if as_events else JSON_TYPE

    def sent(body: bytes) -> bytes:
        return b"event: message\ndata: " + body + b"\n\n" if as_events else body

    for rule in (BodyRule(ANY), BodyRule("pattern", pattern=".")):
        expected = Expectation(sent(b'{"value": 3}'), 0.1, 0.0, 200, rule)
        for body in JSON_ERRORS:
            problem = expected.problem(HttpResponse(200, sent(body), headers))
            assert problem.startswith("200 with an error: ")
            assert body.decode() in problem
            assert error_instead_of(expected.right, sent(body), headers["content-type"])
            reference = replace(expected, answer=sent(JSON_ERRORS[0]))
            assert reference.problem(HttpResponse(200, sent(body), headers)) == ""
            is_expected = replace(expected, status=404)
            assert is_expected.problem(HttpResponse(404, sent(body), headers)) == ""
        for body in NO_ERRORS:
            assert expected.problem(HttpResponse(200, sent(body), headers)) == ""


def test_the_error_states_that_a_response_is_equal_as_json_but_not_byte_for_byte() -> None:
    expected = Expectation(RIGHT, 0.1, 0.0)
    assert expected.problem(HttpResponse(200, RIGHT, {})) == ""
    assert "equal as JSON" in expected.problem(HttpResponse(200, COMPACT, {}))
    assert "JSON" not in expected.problem(HttpResponse(200, b'{"a":1,"b":[2,4]}', {}))
    assert "JSON" not in expected.problem(HttpResponse(500, COMPACT, {}))


def test_another_order_of_keys_is_correct_if_no_suite_says_how_to_compare() -> None:
    right, other, wrong = b'{"a": 1, "b": 2}', b'{"b": 2, "a": 1}', b'{"b": 2, "a": 3}'
    expected = Expectation(right, 0.1, 0.0, key_order=KeyOrder())
    in_another_case = replace(expected, headers=(("X-Served-By", "whitenoise"),))
    assert [expected.right.problem(body, {}) == "" for body in (right, other, wrong)] == [True, True, False]
    assert "compared" not in expected.rule.checked()
    assert expected.problem(HttpResponse(200, wrong, {}))
    assert expected.size_bytes == len(right)
    assert expected.problem(HttpResponse(200, other, {})) == ""
    assert "compared as JSON" in in_another_case.rule.checked()  # from now on, in all cases
    assert expected.size_bytes == -1
    assert expected.problem(HttpResponse(200, wrong, {}))


def test_responses_without_the_required_header_are_rejected() -> None:
    expected = Expectation(RIGHT, 0.1, 0.0, headers=(("X-Served-By", "whitenoise"),))
    assert expected.problem(HttpResponse(200, RIGHT, {"x-served-by": "whitenoise"})) == ""
    other = expected.problem(HttpResponse(200, RIGHT, {"x-served-by": "flask\x1b[31m"}))
    assert "X-Served-By: flask\ufffd[31m instead of X-Served-By: whitenoise" in other
    assert "no X-Served-By" in expected.problem(HttpResponse(200, RIGHT, {}))


def test_the_error_for_a_redirect_contains_the_target() -> None:
    assert "308 to '/report/\ufffd[31m'" in HttpResponse(308, b"", {"location": "/report/\x1b[31m"}).described()


def test_the_expected_response_is_the_content_of_the_requested_file(tmp_path: Path) -> None:
    contents = {"a/1.txt": b"one", "a/2 3.txt": b"two and three", "b.txt": b""}
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    expected = Expectation(b"", 0.1, 0.0, files=Files(tmp_path))
    assert expected.size_bytes == -1
    references = dict(expected.for_request("http://here/x/{file}") for _ in range(100))
    assert {url: one.answer for url, one in references.items()} == {
        f"http://here/x/{name.replace(' ', '%20')}": content for name, content in contents.items()
    }
    right = references["http://here/x/a/1.txt"]
    assert not right.problem(HttpResponse(200, b"one", {}))
    assert "'two' instead of 200 with 3 bytes 'one'" in right.problem(HttpResponse(200, b"two", {}))


SECRET = b'{"id": 1, "token": "7"}'
LONG = b"a" * 80
DIFFERENCES = {
    b'{"id": 2, "token": "7"}': """200 with 23 bytes '{"id": 2, "token": "***"}' instead of""",
    b'{"id": 1, "token": "8"}': "; they differ in token, which is masked",
    b'{"id": 1, "token": "88"}': "; they differ in token, which is masked",
    b'{"token": "7", "id": 1}': " (equal as JSON, but not byte for byte)",
}


@pytest.mark.parametrize("body", DIFFERENCES)
def test_the_problem_names_the_field_if_bodies_differ_only_where_they_are_masked(body: bytes) -> None:
    problem = Expectation(SECRET, 0.1, 0.1).problem(HttpResponse(200, body, {}))
    assert DIFFERENCES[body] in problem
    assert '"8' not in problem


def test_the_problem_names_the_first_byte_if_bodies_differ_only_where_they_are_shortened() -> None:
    problem = Expectation(LONG + b"1", 0.1, 0.1).problem(HttpResponse(200, LONG + b"2", {}))
    assert problem.endswith("; they differ from byte 81 on")


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({}, "no X-Token; another server may have answered"),
        ({"x-token": "8"}, "another X-Token, which is masked; another server may have answered"),
    ],
)
def test_the_problem_names_a_secret_header_without_its_values(headers: dict[str, str], problem: str) -> None:
    expected = Expectation(SECRET, 0.1, 0.1, headers=(("X-Token", "7"),))
    assert expected.problem(HttpResponse(200, SECRET, headers)) == problem
