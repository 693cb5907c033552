"""The cases of each round, and the time limits of a run."""

from under_siege.judge.stopping_rule import Decision
from under_siege.measure.racing import Race
from under_siege.record.case import Case
from under_siege.record.result import Result

CEILING, SLOW, FAST, FASTER = (Case(name, ()) for name in ("bare", "1_slow", "2_fast", "3_faster"))
ALL = [SLOW, CEILING, FASTER, FAST]
TOOK_S = dict.fromkeys(ALL, 10.0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def race_of(decision: Decision, at_s: float) -> tuple[list[Case], list[str]]:
    """Return the cases of a round that begins after `at_s` of 100 s, or 200 s at most; and what was announced."""
    clock, said = Clock(), list[str]()

    def with_ceiling(cases, wanted):
        return [case for case in cases if case in wanted or case == CEILING]

    race = Race(lambda _: decision, with_ceiling, said.append, limits_s=(100.0, 200.0), clock=clock)
    clock.now_s = at_s
    result: Result = None  # type: ignore[assignment]  # only the decision uses it
    chosen = race.choose(result, ALL, TOOK_S)
    assert race.choose(result, ALL, TOOK_S) == chosen
    return chosen, said


def test_a_round_measures_the_wanted_cases_and_their_ceilings_in_the_order_of_the_plan() -> None:
    assert race_of(Decision([FAST, FASTER]), 0.0) == ([CEILING, FASTER, FAST], [])
    assert race_of(Decision([]), 0.0) == ([], [])


def test_a_round_measures_only_the_most_urgent_cases_that_fit_into_the_time_limit() -> None:
    assert race_of(Decision([FASTER, FAST]), 75.0)[0] == [CEILING, FASTER]
    assert race_of(Decision([FASTER, FAST]), 85.0)[0] == []


def test_the_time_limit_is_extended_only_for_undecided_cases_and_announced_once() -> None:
    chosen, said = race_of(Decision([FASTER, FAST, SLOW], undecided=[FASTER, FAST]), 85.0)
    assert chosen == [CEILING, FASTER, FAST]
    assert len(said) == 1
    assert "200 s" in said[0]
    assert "Ctrl-C" in said[0]
    assert race_of(Decision([FASTER, FAST], undecided=[FASTER, FAST]), 195.0) == ([], [])
