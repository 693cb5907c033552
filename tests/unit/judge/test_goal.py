"""Parsing of goals, and the errors for invalid goals."""

import pytest
from any_text import any_text
from hypothesis import given
from hypothesis import strategies as st

from common.errors import BadInputError
from under_siege.judge.goal import EXAMPLES, Goal, goal


@pytest.mark.parametrize(
    ("text", "figure", "operator", "limit"),
    [
        ("p99 < 1s", "response_p99_s", "<", 1.0),
        ("response p95<=250ms", "response_p95_s", "<=", 0.25),
        ("http_req_duration p(99) < 500ms", "response_p99_s", "<", 0.5),
        ("first text p99 < 500ms", "first_event_p99_s", "<", 0.5),
        ("p(95)<200ms", "response_p95_s", "<", 0.2),
        ("ping med < 5 ms", "ping_p50_s", "<", 0.005),
        ("Ping  p99 <  50ms", "ping_p99_s", "<", 0.05),
        ("rate >= 30/s", "rate_per_s", ">=", 30.0),
        ("rate > 600/min", "rate_per_s", ">", 10.0),
        ("of ceiling >= 80%", "of_ceiling", ">=", 0.8),
        ("rate >= 0.8 of ceiling", "of_ceiling", ">=", 0.8),
        ("availability >= 99.9%", "availability_pct", ">=", 99.9),
        ("cpu < 60ms", "cpu_s_per_transaction", "<", 0.06),
        ("memory < 200MB", "memory_bytes", "<", 2e8),
        ("memory < 1GiB", "memory_bytes", "<", 2.0**30),
    ],
)
def test_a_goal_is_parsed(text: str, figure: str, operator: str, limit: float) -> None:
    found = goal(text)
    assert (found.figure, found.operator, found.of_base) == (figure, operator, False)
    assert found.limit == pytest.approx(limit)


def test_a_goal_relative_to_the_base_is_parsed() -> None:
    assert goal("rate >= 0.97 of base") == Goal("rate >= 0.97 of base", "rate_per_s", ">=", 0.97, of_base=True)
    assert goal("ping p99 <= 110% of base").limit == pytest.approx(1.1)


@pytest.mark.parametrize(("operator", "held"), [("<", {1}), ("<=", {1, 2}), (">", {3}), (">=", {2, 3})])
def test_the_comparison_operator_decides_which_values_meet_a_goal(operator: str, held: set[int]) -> None:
    assert {value for value in (1, 2, 3) if goal(f"p99 {operator} 2s").holds(value)} == held


@pytest.mark.parametrize(("text", "is_met"), [("availability >= 99%", True), ("availability > 99%", False)])
def test_99_of_100_is_an_availability_of_exactly_99_percent(text: str, is_met: bool) -> None:
    exactly = 100 * (99 / 100)
    assert goal(text).holds(exactly) is goal(text).decided(exactly, exactly) is is_met


WITHOUT_UNIT = ["p99 < 1", "memory < 200", "p99 < 3kg"]
MISSPELLED = ["ping p9 < 50ms", "availabilty >= 99.9%", "p99 = 1s", "p99 < 2 of ceiling", "", "rate >= -3/s"]


def test_the_error_for_an_invalid_goal_contains_a_hint(golden) -> None:
    errors = []
    for text in (*WITHOUT_UNIT, *MISSPELLED):
        with pytest.raises(BadInputError) as raised:
            goal(text)
        errors.append(str(raised.value))
    assert all(map(str.isprintable, errors))
    golden(*errors)


@given(
    any_text() | st.builds("{} {} {}{}".format, any_text(), st.sampled_from("<>="), st.floats(), any_text(max_size=3))
)
def test_any_text_is_parsed_as_a_goal_or_causes_a_one_line_error(text: str) -> None:
    try:
        assert goal(text).limit >= 0
    except BadInputError as error:
        assert len(str(error).splitlines()) == 1  # noqa: PT017 (most texts are rejected)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_in_error_messages_are_valid_goals(text: str) -> None:
    assert goal(text).text == text
