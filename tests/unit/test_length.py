"""How long a siege lasts, and what is said of it beforehand."""

import planned
import pytest

from under_siege.run.duration import LEAST_S, Length, in_words, run_length_s, say_how_long, too_short_for
from under_siege.run.plan import Plan
from under_siege.targets.expectation import Expectation

COMPUTES, WAITS = Expectation(b"4", 0.04, 0.04), Expectation(b"4", 0.28, 0.0)


def plan_of(time_s: float | None, users: int, task: str = "primes", rounds: int = 2) -> Plan:
    return planned.plan_of("2", "4", task=task, users=users, time_s=time_s, rounds=rounds, seed=1)


def expectations(plan: Plan, expected: Expectation):
    return {case.work: expected for case in plan.cases}


def test_what_was_asked_for_is_what_there_is() -> None:
    length = Length(2.5, 4, WAITS)
    for user in range(4):
        length.answer(user, 1.9)
    assert length.end_s == 2.5


def test_a_siege_lasts_as_long_as_its_settled_part_needs() -> None:
    """25 users, one after the other, 0.28 s each: nine of ten have had an answer after 6.4 s."""
    length = Length(None, 25, WAITS)
    for user in range(25):
        length.answer(user, 0.28 * (user + 1))
    assert length.end_s == pytest.approx(2.75 * 0.28 * 22)
    together = Length(None, 25, WAITS)
    for user in range(25):
        together.answer(user, 0.3)
    assert together.end_s == LEAST_S


def test_a_siege_lasts_at_least_3_s_however_fast_the_answers_are() -> None:
    """Shorter sieges would more often rank equal servers differently on a machine whose speed changes."""
    length = Length(None, 1, Expectation(b"4", 0.001, 0.001))
    assert length.end_s >= 3
    length.answer(0, 0.001)
    assert length.end_s >= 3


def test_a_server_half_as_fast_as_one_task_after_the_other_is_waited_for() -> None:
    length = Length(None, 25, WAITS)
    for user in range(25):
        length.answer(user, 1.9 * 0.28 * (user + 1))
    assert length.end_s == pytest.approx(2.75 * 1.9 * 0.28 * 22)


def test_only_the_first_answers_of_different_users_count() -> None:
    length = Length(None, 2, COMPUTES)
    before = length.end_s
    for at_s in (0.1, 0.2, 0.3):
        length.answer(0, at_s)
    assert length.end_s == before


def test_a_server_that_answers_nobody_is_not_waited_for_for_ever() -> None:
    assert Length(None, 400, COMPUTES).end_s < 4 * 400 * 0.04 * 2
    slow = Length(None, 400, COMPUTES)
    limit_s = slow.end_s
    for user in range(400):
        slow.answer(user, limit_s * 0.9)
    assert slow.end_s == limit_s


def test_the_length_of_a_run_is_known_within_bounds() -> None:
    plan = plan_of(None, 25)
    least_s, most_s = run_length_s(plan, 2, expectations(plan, COMPUTES), 2)
    assert 6 * LEAST_S < least_s <= most_s < 6 * 8
    waiting = run_length_s(plan, 2, expectations(plan, WAITS), 2)
    assert waiting[1] > 6 * 15 > waiting[0]
    asked = plan_of(3.0, 25)
    assert len(set(run_length_s(asked, 2, expectations(asked, WAITS), 2))) == 1


@pytest.mark.parametrize(
    ("least_s", "most_s", "said"),
    [(50, 52, "about 50 s"), (110, 115, "about 2 min"), (90, 400, "90 s to 7 min"), (130, 420, "2 min to 7 min")],
)
def test_lengths_in_words(least_s: float, most_s: float, said: str) -> None:
    assert in_words(least_s, most_s) == said


@pytest.mark.parametrize("expected", [COMPUTES, WAITS], ids=["computes", "waits"])
def test_tasks_for_which_the_asked_time_is_short_are_named_whether_they_wait_or_compute(expected) -> None:
    plan = plan_of(1.0, 25)
    ((case, least_s),) = too_short_for(plan, expectations(plan, expected))
    assert case.task == "primes"
    assert least_s >= 2.75 * 25 * expected.task_s
    long = plan_of(60.0, 25)
    assert not list(too_short_for(long, expectations(long, expected)))
    auto = plan_of(None, 25)
    assert not list(too_short_for(auto, expectations(auto, expected)))


def test_how_long_it_takes_is_said_before_anything_is_started() -> None:
    class Heard:
        def __init__(self) -> None:
            self.said: list[str] = []
            self.warned: list[str] = []

        def say(self, message: str) -> None:
            self.said.append(message)

        def warn(self, message: str) -> None:
            self.warned.append(message)

    heard, plan = Heard(), plan_of(2.0, 25, rounds=3)
    say_how_long(plan, expectations(plan, WAITS), heard)
    assert heard.said == ["9 sieges take about 32 s"]
    assert heard.warned == ["--time 2s is short for primes with 25 users: use --time auto, or 21s or more"]
