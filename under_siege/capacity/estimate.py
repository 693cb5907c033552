"""Estimate the capacity of each server: the highest request rate that meets all goals.

A closed-loop siege measures the saturation rate of the server. Steps then offer lower rates, with Poisson arrivals. A
metric can only get worse as the rate increases, so the estimate is the rate at which the isotonic regression over all
steps reaches the limit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from under_siege.capacity.step_metrics import MOST_EXCESS, REPLICATES, Floats, StepMetrics
from under_siege.judge.goal import Goal, goal
from under_siege.judge.metric import MetricValue
from under_siege.judge.requirement_check import MISSED, UNDECIDED, Judged, outcome_of
from under_siege.judge.round_statistics import Round
from under_siege.record.case import Case
from under_siege.record.result import Result

INTERVAL = (0.025, 0.975)
WIDE = 1.5  # ratio of the upper to the lower bound (±20 %) beyond which the result is undecided
IDLE = 2.0  # if the mean response time is below this multiple of that of the idle server, the users are too few
# No higher share of the saturation rate is offered. It certainly misses the goals for responses, as the queue grows.
OVERLOAD = 1.1
LEAST_PER_S, LEAST_SHARE = 1.0, 0.05  # the lowest rate is the lower of 1/s and this share of the saturation rate
MOST_OPEN = 1000  # requests at the same time that a step may have, even if the server keeps up
MOST_PER_S = 2000.0  # what the load generator can offer
SPEED_SHARE = 0.6  # share of the scatter of the CPU speed between steps that does not average out
OK, FAILED = "ok", "failed"
# Metrics whose goals don't limit the search: they are requirements for the rate that it finds.
OF_RATE = ("rate_per_s", "of_ceiling", "streams_per_s")


@dataclass(frozen=True)
class SearchSteps:
    """The steps of one server so far, and the rates that may be offered next."""

    every: list[StepMetrics]
    sieges: list[StepMetrics]  # closed-loop sieges that did not fail
    offered: list[StepMetrics]  # steps with arrivals that did not fail, by rate
    limited: StepMetrics | None  # the lowest rate that the load generator could not offer
    goals: tuple[Goal, ...]
    saturation_per_s: float | None
    is_saturated: bool  # whether the users of the last siege, rather than the load generator, kept the server busy
    bound_per_s: (
        float  # the saturation rate if it bounds the capacity, or 0 if no goal needs a response to each request
    )
    least_per_s: float  # the lowest rate that may be offered
    most_per_s: float  # the highest rate that may be offered


def search_steps(result: Result, case: Case) -> SearchSteps:
    """Return the steps of a case so far."""
    every = [StepMetrics(step) for step in result.steps if step.case == case]
    done = sorted((step for step in every if not step.failure), key=lambda step: step.per_s)
    sieges = [step for step in every if step.step.closed_users and not step.failure]
    offered = [step for step in done if not step.step.closed_users]
    limited = next((step for step in offered if step.is_limited), None)
    goals = every[0].goals if every else ()
    saturation_per_s = max((step.per_s for step in sieges), default=None)
    is_saturated = False
    if sieges and not sieges[-1].is_limited and sieges[-1].right.any():
        idle_s = sieges[-1].record.idle_answer_s or 0.0
        is_saturated = sieges[-1].step.closed_users >= IDLE * idle_s * sieges[-1].per_s
    needs_responses = any(goal.figure.startswith(("response_", "availability_")) for goal in goals)

    least_per_s = min(LEAST_PER_S, LEAST_SHARE * (saturation_per_s or MOST_PER_S))
    by_server = OVERLOAD * (saturation_per_s or 0.0) if is_saturated else MOST_PER_S
    by_generator = limited.per_s / 2 if limited else MOST_PER_S
    longest_idle_s = max((siege.record.idle_answer_s or 0.0 for siege in sieges), default=0.0)
    by_open = MOST_OPEN / longest_idle_s if longest_idle_s else MOST_PER_S
    return SearchSteps(
        every=every,
        sieges=sieges,
        offered=[step for step in offered if not step.is_limited],
        limited=limited,
        goals=goals,
        saturation_per_s=saturation_per_s,
        is_saturated=is_saturated,
        bound_per_s=saturation_per_s or 0.0 if needs_responses and is_saturated else 0.0,
        least_per_s=least_per_s,
        most_per_s=max(least_per_s, min(MOST_PER_S, by_server, by_generator, by_open)),
    )


def bracket(steps: SearchSteps) -> tuple[float, float]:
    """Return the highest rate that met all goals and the lowest that missed one, by isotonic regression.

    The first is 0 if no rate met all goals. If none missed one, the second is the saturation rate or, if the goals
    don't depend on it, the highest rate that may be offered.
    """
    offered = steps.offered
    fit = isotonic_regression(_excesses(offered)[:, 0], weights=_weights(offered)).x if offered else []
    met = [step.per_s for step, excess in zip(offered, fit, strict=True) if excess < 0]
    missed = [step.per_s for step, excess in zip(offered, fit, strict=True) if excess >= 0]
    return max(met, default=0.0), min(missed, default=steps.bound_per_s or steps.most_per_s)


def crossings(steps: SearchSteps) -> Floats:
    """Return the rate at which the isotonic regression reaches the limit, as measured and in each replicate.

    A point at `OVERLOAD` stands for all higher rates. CPU-bound steps ran at different CPU speeds, so the rates of
    the replicates scatter, too.
    """
    rates, weights = [step.per_s for step in steps.offered], _weights(steps.offered)
    excesses = _excesses(steps.offered)
    if rates[-1] < OVERLOAD * steps.bound_per_s:
        rates, weights = [*rates, OVERLOAD * steps.bound_per_s], [*weights, max(weights)]
        excesses = np.vstack([excesses, np.full(1 + REPLICATES, MOST_EXCESS)])
    speeds = [step.speed for step in steps.offered if step.speed]
    scatter = SPEED_SHARE * float(np.std(np.log(speeds))) if speeds else 0.0
    logs = np.log(rates)[:, None] + np.random.default_rng(len(rates)).normal(0.0, scatter, excesses.shape)
    logs[:, 0] = np.log(rates)
    return np.array([_crossing(*columns, np.array(weights)) for columns in zip(logs.T, excesses.T, strict=True)])


def _excesses(steps: Sequence[StepMetrics]) -> Floats:
    """Return how far each step exceeds the goal that it exceeds most, as measured and in each replicate."""
    return np.array([np.max(list(step.excesses.values()), axis=0) for step in steps])


def _weights(steps: Sequence[StepMetrics]) -> list[float]:
    return [float(len(step.waits_s)) for step in steps]


def _crossing(logs: Floats, excesses: Floats, weights: Floats) -> float:
    """Return the rate at which the isotonic regression is 0.

    The regression pools neighbours that contradict each other. Between the means of two pools, it is interpolated.
    Beyond the lowest and the highest rate, the metric is assumed to be proportional to the rate.
    """
    order = np.argsort(logs)
    logs = logs[order]
    excesses = excesses[order]
    weights = weights[order]
    fit = isotonic_regression(excesses, weights=weights)
    starts = fit.blocks[:-1]
    rates = np.add.reduceat(logs * weights, starts) / np.add.reduceat(weights, starts)
    values = fit.x[starts]
    far = 2 * MOST_EXCESS
    ends = [values[0] - far, *values, values[-1] + far], [rates[0] - far, *rates, rates[-1] + far]
    return float(np.exp(np.interp(0.0, *ends)))


@dataclass(frozen=True)
class Capacity:
    """The capacity of one server, estimated from its steps."""

    case: Case
    title: str
    goals: tuple[Goal, ...]
    steps: list[StepMetrics]  # by rate, without steps in which the load generator was the limit
    limited: StepMetrics | None  # the lowest rate that the load generator could not offer
    refusing: StepMetrics | None  # the lowest rate at which the server refused requests while it was idle
    saturation_per_s: float | None
    verdict: str  # `failed`, `undecided` (if the lower bound is unknown or the interval exceeds about ±20 %), or `ok`
    failure: str  # why there is no estimate, or an empty string if there is one
    per_s: float | None  # None if a bound of its interval is None
    lower_per_s: float | None
    upper_per_s: float | None
    is_none: bool  # whether even the lowest rate that may be offered misses a goal
    first_missed: StepMetrics | None  # the lowest rate in or above the interval that missed a goal
    breaks: Goal | None  # the goal that is missed first as the rate increases; None if no offered rate misses a goal
    nearest_step: StepMetrics | None  # the step that met all goals and is nearest to the lower bound
    ceiling_per_s: float | None  # the rate without a server, or None if it is unknown
    of_ceiling: float | None


def capacity_of(result: Result, case: Case) -> Capacity:
    """Estimate the capacity of one server."""
    search = search_steps(result, case)
    steps, failure = search.offered, _failure(search)
    missed, met = [step for step in steps if step.missed], [step for step in steps if not step.missed]
    per_s, lower_per_s, upper_per_s = _estimate(search, met, missed) if not failure else (None, None, None)
    refusing = next((step for step in missed if step.refuses_while_idle), None)
    if refusing and refusing.record.keep_alive:  # the rate depends on how many connections clients keep open
        per_s = lower_per_s = upper_per_s = None
    is_none = lower_per_s is None and bool(steps) and steps[0].per_s <= search.least_per_s
    is_wide = bool(lower_per_s and upper_per_s and upper_per_s > WIDE * lower_per_s)
    verdict = UNDECIDED if is_wide or (lower_per_s is None and not is_none) else OK
    if failure:
        verdict = FAILED
    beyond = [step for step in missed if step.per_s >= (lower_per_s or 0.0)]
    first_missed = next(iter(beyond or missed), None)
    nearest_step = None
    if lower_per_s:
        nearest_step = min(met, key=lambda step: abs(math.log(step.per_s / lower_per_s)), default=None)
    ceiling = next((record for record in result.records if record.is_ceiling and record.case.covers(case)), None)
    ceiling_per_s = Round(ceiling).rate.per_s if ceiling is not None and ceiling.failure is None else None
    return Capacity(
        case=case,
        title=search.every[0].record.title if search.every else "",
        goals=search.goals,
        steps=steps,
        limited=search.limited,
        refusing=refusing,
        saturation_per_s=search.saturation_per_s,
        verdict=verdict,
        failure=failure,
        per_s=per_s,
        lower_per_s=lower_per_s,
        upper_per_s=upper_per_s,
        is_none=is_none,
        first_missed=first_missed,
        breaks=first_missed.missed[0] if first_missed else None,
        nearest_step=nearest_step,
        ceiling_per_s=ceiling_per_s,
        of_ceiling=per_s / ceiling_per_s if per_s and ceiling_per_s else None,
    )


def _failure(search: SearchSteps) -> str:
    for step in search.every:
        if step.failure:
            return step.failure
    if search.sieges and not any(siege.right.any() for siege in search.sieges):
        seen_s = search.sieges[-1].step.seen_until_s
        return f"no request was answered correctly in {seen_s:.0f} s; use a longer --time"
    if search.offered:
        return ""
    return "the load generator was too slow for every rate" if search.limited else "no rate was offered"


def _estimate(
    search: SearchSteps, met: Sequence[StepMetrics], missed: Sequence[StepMetrics]
) -> tuple[float | None, float | None, float | None]:
    """Return the capacity and its confidence interval; a bound is None if it is unknown or outside the possible rates.

    The interval contradicts no step: the upper bound is not below a rate that met all goals, and the lower bound is
    not above the highest of them, nor above a rate if two steps at this or a lower rate missed a goal.
    """
    if not met:
        return None, None, missed[0].per_s
    replicates = crossings(search)[1:]
    low, high = map(float, np.quantile(replicates, INTERVAL, method="nearest"))
    lower_per_s = min([low, met[-1].per_s, *(step.per_s for step in missed[1:2])])
    if not missed and met[-1].per_s >= OVERLOAD * search.bound_per_s:
        return None, lower_per_s, None
    return float(np.median(replicates)), lower_per_s, max(high, met[-1].per_s)


def capacities_of(result: Result) -> list[Capacity]:
    """Return the capacity of each case, ordered by server number."""
    cases = list(dict.fromkeys(step.case for step in result.steps))
    return [capacity_of(result, case) for case in sorted(cases, key=lambda case: case.sort_key)]


def judged(result: Result) -> list[Judged]:
    """Judge the requirements for the rate that each server sustains."""
    goals = [goal(each.text) for each in result.requirements]
    return [_judged(each, capacity) for each in goals for capacity in capacities_of(result) if each.figure in OF_RATE]


def _judged(requirement: Goal, capacity: Capacity) -> Judged:
    if capacity.verdict == FAILED:
        return Judged(requirement, capacity, None, MISSED, "it failed")
    of_ceiling = requirement.figure == "of_ceiling"
    if of_ceiling and capacity.ceiling_per_s is None:
        return Judged(requirement, capacity, None, UNDECIDED, "there is no ceiling")
    unit = capacity.ceiling_per_s or 1.0 if of_ceiling else 1.0
    upper_per_s = math.inf if capacity.upper_per_s is None else capacity.upper_per_s
    mean = None if capacity.per_s is None else capacity.per_s / unit
    known = MetricValue(mean, (capacity.lower_per_s or 0.0) / unit, upper_per_s / unit)
    outcome = outcome_of(requirement, known)
    return Judged(requirement, capacity, known, outcome, "search longer, with --time" if outcome == UNDECIDED else "")


def exit_code(result: Result) -> int:
    """Return 1 if any search failed or misses a requirement, 3 if anything else is undecided, and 0 otherwise."""
    found = {capacity.verdict for capacity in capacities_of(result)} | {each.outcome for each in judged(result)}
    if found & {FAILED, MISSED}:
        return 1
    return 3 if UNDECIDED in found else 0
