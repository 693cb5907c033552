"""The capacity for streams and long tasks: broken streams, limits of events, and sieges in which nothing ends."""

import math

import pytest
from simulated_capacity import NOTHING_PER_S, SERVERS, offered
from simulated_record import record_of, result_of

from under_siege.capacity.estimate import capacities_of, exit_code, search_steps
from under_siege.capacity.search import TIMES_TASK, next_load
from under_siege.capacity.step import longest_s
from under_siege.capacity.step_metrics import StepMetrics
from under_siege.judge.goal import goal
from under_siege.record.record import RateStep
from under_siege.record.requests import LOST, Outcome, Requests

GOALS = ("first event p99 < 1s", "gap p99 < 200ms")
EVENTS = 300


def step_of(
    outcomes: list[Outcome], first_us: int = 20_000, goals: tuple[str, ...] = GOALS, rate: float = 10.0
) -> RateStep:
    """Return a step of long streams with these outcomes, one every 0.1 s; `first_us` is -1 without any event."""
    gaps_us = [10_000] * EVENTS if first_us >= 0 else []
    record = record_of("streams", users=25, has_task=False, stream="sse")
    record.requests = Requests()
    for number, outcome in enumerate(outcomes):
        at_s = number / rate
        record.requests.add("load", sent_s=at_s, ended_s=at_s + 3.1, outcome=outcome, events=(first_us, gaps_us))
    return RateStep(record=record, goals=list(goals), arrivals_per_s=rate, seen_until_s=len(outcomes) / rate + 4)


def missed(step: RateStep) -> list[str]:
    return [each.text for each in StepMetrics(step).missed]


def test_streams_that_are_in_time_meet_the_goals() -> None:
    assert missed(step_of(["correct"] * 100)) == []


@pytest.mark.parametrize("outcome", ["lost", "wrong", "refused"])
def test_broken_streams_miss_the_goals_however_many_events_came_before(outcome: Outcome) -> None:
    assert set(missed(step_of([outcome] * 100))) == set(GOALS)
    one_in_three = step_of(["correct", "correct", outcome] * 33)
    assert set(missed(one_in_three)) == set(GOALS)
    assert StepMetrics(one_in_three).value("gap_p99_s") == math.inf


def test_one_lost_stream_in_a_hundred_is_within_a_p99_and_within_an_availability_of_99_percent() -> None:
    step = step_of([LOST, *["correct"] * 99], goals=("first event p99 < 1s", "availability >= 99%"))
    assert missed(step) == []
    assert "availability >= 99%" in missed(step_of([LOST, LOST, *["correct"] * 98], goals=("availability >= 99%",)))


def test_a_goal_for_first_events_is_missed_if_no_stream_had_an_event_before_the_limit() -> None:
    assert missed(step_of(["open"] * 100, first_us=-1, goals=("first event p99 < 3s",))) == ["first event p99 < 3s"]


@pytest.mark.parametrize(
    ("goals", "limit_s"), [(("first event p99 < 10s", "gap p99 < 5s"), 10.0), (("gap p99 < 5s", "p99 < 2s"), 5.0)]
)
def test_a_step_waits_for_its_last_events_as_long_as_the_longest_limit(goals: tuple[str, ...], limit_s: float) -> None:
    assert longest_s([goal(text) for text in goals]) == limit_s


def siege_without_responses() -> RateStep:
    step = step_of(["open"] * 25, goals=GOALS, rate=1e3)
    step.closed_users, step.arrivals_per_s, step.record.idle_answer_s = 25, NOTHING_PER_S, 6.0
    return step


def test_a_siege_lasts_longer_than_the_task() -> None:
    case = siege_without_responses().case
    load = next_load(search_steps(result_of([]), case), 60.0, task_s=6.0)
    assert load.users
    assert load.time_s >= TIMES_TASK * 6.0


def test_a_siege_in_which_nothing_ended_bounds_no_rate_and_is_a_failure() -> None:
    result = result_of([])
    result.steps.append(siege_without_responses())
    (one,) = capacities_of(result)
    steps = search_steps(result, one.case)
    assert not steps.is_saturated
    assert steps.most_per_s > 100
    assert "no request was answered correctly" in one.failure
    assert exit_code(result) == 1


def test_steps_without_a_siege_are_no_failure() -> None:
    result = result_of([])
    result.steps.append(offered(SERVERS["M/D/1"], 30.0, 5.0, 1, 1))
    assert capacities_of(result)[0].failure == ""
