"""What a wrong response differs in, for a message."""

import pytest

from under_siege.load.http_client import HttpResponse
from under_siege.suite.expected_response import Expectation

RIGHT = b'{"id": 1, "token": "7"}'
LONG = b"a" * 80
PROBLEMS = {
    b'{"id": 2, "token": "7"}': """200 with 23 bytes '{"id": 2, "token": "***"}' instead of""",
    b'{"id": 1, "token": "8"}': "; they differ in token, which is masked",
    b'{"id": 1, "token": "88"}': "; they differ in token, which is masked",
    b'{"token": "7", "id": 1}': " (equal as JSON, but not byte for byte)",
}


@pytest.mark.parametrize("body", PROBLEMS)
def test_the_problem_names_the_field_if_bodies_differ_only_where_they_are_masked(body: bytes) -> None:
    problem = Expectation(RIGHT, 0.1, 0.1).problem(HttpResponse(200, body, {}))
    assert PROBLEMS[body] in problem
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
    expected = Expectation(RIGHT, 0.1, 0.1, headers=(("X-Token", "7"),))
    assert expected.problem(HttpResponse(200, RIGHT, headers)) == problem
