"""Check requirements against intervals: met, missed, or undecided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.errors import BadInputError
from under_siege.analysis.metric_value import MetricValue, known
from under_siege.analysis.report_data import Comparison
from under_siege.analysis.summary import Summary
from under_siege.checks.verdict import FAILED
from under_siege.model.record import Result
from under_siege.model.threshold import Goal, Required, goal_names
from under_siege.stats.estimates import Estimate, more_needed

MET, MISSED, UNDECIDED = "met", "missed", "undecided"
# What makes a case suspect because of its failures: these are counted, whatever else they put in doubt.
_OF_FAILURES = {"availability", "pings"}
# What makes a case unclear because of noise, which is in the interval.
_NOISE = {"wide_interval"}


@dataclass(frozen=True, slots=True)
class Judged:
    """A requirement, and a case that it is about."""

    goal: Goal
    case: Summary
    known: MetricValue | None  # None: it has no such figure
    outcome: str
    doubt: str = ""  # why nothing is said though there may be an interval
    more: int | None = None  # requests that would decide it, if they went like those that were sent


def judged(result: Result, comparison: Comparison) -> list[Judged]:
    """Return every requirement of a result that is about itself, with each case that it is about."""
    told = [(one.goal, one) for one in result.requirements]
    return [
        _judged(goal, comparison, place)
        for goal, one in told
        if not goal.of_base
        for place in places_of(one, comparison)
    ]


def places_of(required: Required, comparison: Comparison) -> Iterator[int]:
    """Which of the cases it is about."""
    for place, case in enumerate(comparison.cases):
        if required.server in ("", case.server):
            yield place


def _judged(goal: Goal, comparison: Comparison, place: int) -> Judged:
    case, found = comparison.cases[place], known(comparison, place, goal.figure)
    if case.verdict == FAILED:
        return Judged(goal, case, None, MISSED, "it failed")
    outcome = outcome_of(goal, found)
    doubt = "" if _counts(goal, case) or outcome != MET else f"it is {case.verdict}"
    outcome = UNDECIDED if doubt else outcome
    more = None
    if found and outcome == UNDECIDED and goal.figure == "availability_pct" and not goal.is_at_most:
        rounds = comparison.rounds[place]
        more = more_needed([one.completed for one in rounds], [one.attempts for one in rounds], goal.limit / 100)
    return Judged(goal, case, found, outcome, doubt, more)


def _counts(goal: Goal, case: Summary) -> bool:
    """Return whether a figure that meets a requirement can be believed.

    Noise is in its interval. But work that was not done flatters every figure, so a case that may have done less can
    miss a requirement and can't meet it. Failures are counted, whatever else they put in doubt.
    """
    codes = {reason.code for reason in case.reasons}
    return codes <= _NOISE or (goal.figure == "availability_pct" and codes <= _OF_FAILURES)


def judged_beside(goal: Goal, case: Summary, base: Summary | None, change: Estimate | None) -> Judged:
    """Judge a requirement about the change from one result to another, at one speed of the machine."""
    if case.verdict == FAILED:
        return Judged(goal, case, None, MISSED, "it failed")
    if base is None:
        return Judged(goal, case, None, UNDECIDED, "it was not measured before")
    found = MetricValue(change.mean, *(change.interval() or ())) if change else None
    outcome = outcome_of(goal, found)
    doubts = []
    if base.verdict == FAILED or (outcome == MISSED and not _counts(goal, base)):  # the base was flattered
        doubts.append(f"it was {base.verdict} before")
    if outcome == MET and not _counts(goal, case):
        doubts.append(f"it is {case.verdict}")
    return Judged(goal, case, found, UNDECIDED if doubts else outcome, ", and ".join(doubts))


def outcome_of(goal: Goal, found: MetricValue | None) -> str:
    """Return the outcome by the interval; without one nothing is decided."""
    edges = found.interval if found else None
    holds = goal.decided(*edges) if edges else None
    return UNDECIDED if holds is None else MET if holds else MISSED


def exit_code_of(found: Sequence[Judged]) -> int:
    """1 if something is missed, else 3 if something is undecided, else 0."""
    outcomes = {one.outcome for one in found}
    return 1 if MISSED in outcomes else 3 if UNDECIDED in outcomes else 0


def check_has(comparison: Comparison, required: Sequence[Required]) -> None:
    """Raises BadInputError if no case of a result has a figure that is required."""
    sound = [place for place, case in enumerate(comparison.cases) if case.verdict != FAILED]
    for one in required:
        if sound and not any(known(comparison, place, one.goal.figure) for place in sound):
            has = [
                name
                for name, figure in goal_names().items()
                if any(known(comparison, place, figure) for place in sound)
            ]
            raise BadInputError(f"{one.text!r}: this result has no such figure: expected one of {', '.join(has)}")
