"""Decide from confidence intervals whether requirements are met, missed or undecided."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from common.errors import BadInputError
from under_siege.judge.estimates import more_needed
from under_siege.judge.goal import NAMES, Goal, goal, required
from under_siege.judge.metric import MetricValue
from under_siege.judge.metrics import OF_STREAMS
from under_siege.judge.ranking import Comparison
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED
from under_siege.load import DRIVERS
from under_siege.paths import PROGRAM
from under_siege.record.case import HasCase
from under_siege.suite.requests import prefixed
from under_siege.suite.suite import Suite
from under_siege.suite.suite_file import ALL

MET, MISSED, UNDECIDED = "met", "missed", "undecided"
_OF_FAILURES = {"availability", "pings"}  # reasons that the availability already reflects
_NOISE = {"wide_interval"}  # reasons that the interval already reflects


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcome of a requirement for one case."""

    goal: Goal
    case: HasCase
    known: MetricValue | None  # None if the case failed, or if the metric is unknown
    outcome: str
    doubt: str = ""  # reason for the outcome, if it does not follow from the interval
    more: int | None = None  # how many more requests, with the same share of failures, would decide the outcome


def judged(comparison: Comparison) -> list[Judged]:
    """Judge each requirement that is not relative to a base, for each case that it applies to."""
    return [_judged(limit, comparison, place) for limit, place in limits_in(comparison, of_base=False)]


def limits_in(comparison: Comparison, *, of_base: bool) -> Iterator[tuple[Goal, int]]:
    """Yield the requirements that are (not) relative to a base, with the index of each case that they apply to."""
    for requirement in comparison.result.requirements:
        limit = goal(requirement.text)
        for place, case in enumerate(comparison.cases):
            if limit.of_base == of_base and requirement.server in ("", case.server):
                yield limit, place


def _judged(goal: Goal, comparison: Comparison, place: int) -> Judged:
    case, more = comparison.cases[place], None
    value = _value(goal, case)
    if case.verdict == FAILED:
        return Judged(goal, case, None, MISSED, "it failed")
    outcome = outcome_of(goal, value)
    doubt = f"it is {case.verdict}" if outcome == MET and not _counts(goal, case) else ""
    outcome = UNDECIDED if doubt else outcome
    if (
        value
        and outcome == UNDECIDED
        and not goal.request
        and goal.figure == "availability_pct"
        and not goal.is_at_most
    ):
        rounds = comparison.rounds[place]
        more = more_needed(
            [run.completed for run in rounds],
            [run.attempts for run in rounds],
            goal.limit / 100,
        )
    return Judged(goal, case, value, outcome, doubt, more)


def _value(goal: Goal, case: Summary) -> MetricValue | None:
    if not goal.request:
        return case.metrics.get(goal.figure)
    return next((each.metrics.get(goal.figure) for each in case.requests if each.name == goal.request), None)


def _counts(goal: Goal, case: Summary) -> bool:
    """Return whether a value that meets a requirement can be trusted.

    Skipping work improves every metric. Therefore, a case that may have skipped work can miss a requirement, but can't
    meet one.
    """
    codes = {reason.code for reason in case.reasons}
    return codes <= _NOISE or (goal.figure == "availability_pct" and codes <= _OF_FAILURES)


def judged_beside(goal: Goal, case: Summary, base: Summary | None, value: MetricValue | None) -> Judged:
    """Judge a requirement that limits the speed-adjusted value as a multiple of a base."""
    if case.verdict == FAILED:
        return Judged(goal, case, None, MISSED, "it failed")
    if base is None:
        return Judged(goal, case, None, UNDECIDED, "it was not measured before")
    outcome = outcome_of(goal, value)
    doubts = []
    if base.verdict == FAILED or (outcome == MISSED and not _counts(goal, base)):  # the base may have skipped work
        doubts.append(f"it was {base.verdict} before")
    if outcome == MET and not _counts(goal, case):
        doubts.append(f"it is {case.verdict}")
    return Judged(goal, case, value, UNDECIDED if doubts else outcome, ", and ".join(doubts))


def outcome_of(goal: Goal, value: MetricValue | None) -> str:
    """Return the outcome that follows from the interval, or `UNDECIDED` if there is no interval."""
    edges = value.interval if value else None
    holds = goal.decided(*edges) if edges else None
    if holds is None:
        return UNDECIDED
    return MET if holds else MISSED


def exit_code_of(results: Sequence[Judged]) -> int:
    """Return 1 if any requirement is missed, 3 if none is missed but any is undecided, or 0 if all are met."""
    outcomes = {check.outcome for check in results}
    if MISSED in outcomes:
        return 1
    return 3 if UNDECIDED in outcomes else 0


def require(comparison: Comparison, texts: Sequence[str], *, has_base: bool = False) -> list[Judged]:
    """Add requirements to the result, and judge all requirements that don't need a base.

    Raises:
        BadInputError: a requirement is invalid, or the result lacks its metric or its base.
    """
    added, result = required(texts), comparison.result
    known = {key for case in comparison.cases for key in case.metrics}
    if not comparison.cases:
        raise BadInputError(f"--require: this result has no case; use one of {PROGRAM} run, or capacity --goal")
    for requirement in added:
        limit = goal(requirement.text)
        if limit.of_base and not has_base:
            remedy = f"use it with {PROGRAM} compare BASE NEW"
            raise BadInputError(f"{requirement.text!r} needs a base to compare with; {remedy}")
        if known and limit.figure not in known:
            names = ", ".join(name for name, metric in NAMES.items() if metric.key in known)
            raise BadInputError(f"{requirement.text!r}: this result has no such metric; use one of {names}")
    result.requirements = list(dict.fromkeys((*result.requirements, *added)))
    return judged(comparison)


def check_requirements(suite: Suite) -> None:
    """Raise BadInputError, with the name of the key, if a requirement in the suite file is invalid."""
    for requirement in suite.required:
        with prefixed(": ".join(filter(None, [suite.source, f"require.{requirement.server or ALL}"]))):
            goal(requirement.text)


def with_required(suite: Suite, texts: Sequence[str], *, has_base: bool = False) -> Suite:
    """Return the suite with more requirements; raise BadInputError if any is invalid or can't be measured."""
    check_requirements(suite)
    further = required(texts)
    for requirement in further:
        if goal(requirement.text).of_base and not has_base:
            raise BadInputError(
                f"{requirement.text!r}: needs a base; use it with --against, with {PROGRAM} compare, or in a suite"
            )
    requirements = tuple(dict.fromkeys((*suite.required, *further)))
    unmeasured = dict(_unmeasured(suite))
    for requirement in requirements:
        if reason := unmeasured.get(goal(requirement.text).figure):
            known = ", ".join(name for name, metric in NAMES.items() if metric.key not in unmeasured)
            raise BadInputError(f"{requirement.text!r}: {reason}; metrics that can be measured: {known}")
    return replace(suite, required=requirements)


def _unmeasured(suite: Suite) -> Iterator[tuple[str, str]]:
    """Yield the key of each metric that no case of the suite will have, with the reason."""
    driver = DRIVERS.get(suite.load.tool)
    for metric in NAMES.values():
        if metric.key.startswith("ping_") and suite.ping is None:
            yield metric.key, "no pings are sent; name a path under [ping], or with --ping"
        elif metric.key.startswith("response_") and driver and not driver.reports_percentiles:
            yield metric.key, f"{suite.load.tool} reports no percentiles"
        elif metric.key in OF_STREAMS and suite.load.stream is None:
            yield metric.key, 'responses are not read as streams; set stream = "sse" under [load], or use --stream sse'
        elif metric.key == "of_ceiling" and suite.ceiling is None:
            yield metric.key, "there is no ceiling"
        elif metric.needs_process and not any(each.command for each in suite.targets):
            yield metric.key, "this metric can't be measured for servers that are already running"
