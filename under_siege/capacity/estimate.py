"""Estimate the capacity of each server: the highest request rate that meets all goals.

A closed-loop siege measures the saturation rate of the server. Steps then offer lower rates, with Poisson arrivals. A
metric can only get worse as the rate increases, so the estimate is the rate at which the isotonic regression over all
steps reaches the limit.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.optimize import isotonic_regression

from under_siege.capacity.step_metrics import MOST_EXCESS, REPLICATES, Floats, StepMetrics
from under_siege.judge.goal import Goal
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
OK, FAILED, UNDECIDED = "ok", "failed", "undecided"


class Capacity:
    """The capacity of one server, estimated from its steps so far."""

    def __init__(self, result: Result, case: Case) -> None:
        self.case, self._result = case, result
        self.own = [StepMetrics(step) for step in result.steps if step.case == case]
        self.goals = self.own[0].goals if self.own else ()
        self.title = self.own[0].record.title if self.own else ""
        done = sorted((step for step in self.own if not step.failure), key=lambda step: step.per_s)
        offered = [step for step in done if not step.step.closed_users]
        self.sieges = [step for step in self.own if step.step.closed_users and not step.failure]
        self.steps = [step for step in offered if not step.is_limited]
        self.limited = next((step for step in offered if step.is_limited), None)  # the generator could not offer it
        self.saturation_per_s = max((step.per_s for step in self.sieges), default=None)

    @property
    def is_saturated(self) -> bool:
        """Return whether the users of the last siege, rather than the load generator, kept the server busy."""
        last = self.sieges[-1] if self.sieges else None
        if last is None or last.is_limited or not last.right.any():
            return False
        return last.step.closed_users >= IDLE * (last.record.idle_answer_s or 0.0) * last.per_s

    @property
    def least_per_s(self) -> float:
        """Return the lowest rate that may be offered."""
        return min(LEAST_PER_S, LEAST_SHARE * (self.saturation_per_s or MOST_PER_S))

    @property
    def most_per_s(self) -> float:
        """Return the highest rate that may be offered."""
        by_server = OVERLOAD * (self.saturation_per_s or 0.0) if self.is_saturated else MOST_PER_S
        by_generator = self.limited.per_s / 2 if self.limited else MOST_PER_S
        idle_s = max((siege.record.idle_answer_s or 0.0 for siege in self.sieges), default=0.0)
        by_open = MOST_OPEN / idle_s if idle_s else MOST_PER_S
        return max(self.least_per_s, min(MOST_PER_S, by_server, by_generator, by_open))

    @property
    def _bound_per_s(self) -> float:
        """Return the saturation rate if it bounds the capacity, or 0 if no goal needs a response to every request."""
        needs_responses = any(goal.figure.startswith(("response_", "availability_")) for goal in self.goals)
        return self.saturation_per_s or 0.0 if needs_responses and self.is_saturated else 0.0

    @cached_property
    def _excesses(self) -> Floats:
        """Return how far each step exceeds the goal that it exceeds most, as measured and in each replicate."""
        return np.array([np.max(list(step.excesses.values()), axis=0) for step in self.steps])

    @cached_property
    def _crossings(self) -> Floats:
        """Return the rate at which the isotonic regression reaches the limit, as measured and in each replicate.

        A point at `OVERLOAD` stands for all higher rates. CPU-bound steps ran at different CPU speeds, so the rates of
        the replicates scatter, too.
        """
        rates, weights, excesses = [step.per_s for step in self.steps], list(self._weights), self._excesses
        if rates[-1] < OVERLOAD * self._bound_per_s:
            rates, weights = [*rates, OVERLOAD * self._bound_per_s], [*weights, max(weights)]
            excesses = np.vstack([excesses, np.full(1 + REPLICATES, MOST_EXCESS)])
        speeds = [step.speed for step in self.steps if step.speed]
        scatter = SPEED_SHARE * float(np.std(np.log(speeds))) if speeds else 0.0
        logs = np.log(rates)[:, None] + np.random.default_rng(len(rates)).normal(0.0, scatter, excesses.shape)
        logs[:, 0] = np.log(rates)
        return np.array([_crossing(*columns, np.array(weights)) for columns in zip(logs.T, excesses.T, strict=True)])

    @property
    def _weights(self) -> list[float]:
        return [float(len(step.waits_s)) for step in self.steps]

    @property
    def bracket(self) -> tuple[float, float]:
        """Return the highest rate that met all goals and the lowest that missed one, by isotonic regression.

        The first is 0 if no rate met all goals. If none missed one, the second is the saturation rate or, if the goals
        don't depend on it, the highest rate that may be offered.
        """
        fit = isotonic_regression(self._excesses[:, 0], weights=self._weights).x if self.steps else []
        met = [step.per_s for step, excess in zip(self.steps, fit, strict=True) if excess < 0]
        missed = [step.per_s for step, excess in zip(self.steps, fit, strict=True) if excess >= 0]
        return max(met, default=0.0), min(missed, default=self._bound_per_s or self.most_per_s)

    @property
    def crossing_per_s(self) -> float:
        """Return the rate at which the regression over all steps reaches the limit."""
        return float(self._crossings[0])

    @property
    def failure(self) -> str:
        """Return why there is no estimate, or an empty string if there is one."""
        failures = [step.failure for step in self.own if step.failure]
        if failures:
            return failures[0]
        if self.sieges and not any(siege.right.any() for siege in self.sieges):
            return (
                f"no request was answered correctly in {self.sieges[-1].step.seen_until_s:.0f} s; use a longer --time"
            )
        if self.steps:
            return ""
        return "the load generator was too slow for every rate" if self.limited else "no rate was offered"

    @cached_property
    def interval(self) -> tuple[float | None, float | None]:
        """Return the confidence interval; a bound is None if it is unknown or outside the rates that may be offered.

        The interval contradicts no step: the upper bound is not below a rate that met all goals, and the lower bound is
        not above the highest of them, nor above a rate if two steps at this or a lower rate missed a goal.
        """
        if self.failure:
            return None, None
        low, high = map(float, np.quantile(self._crossings[1:], INTERVAL, method="nearest"))
        missed = [step.per_s for step in self.steps if step.missed]
        met = [step.per_s for step in self.steps if not step.missed]
        if not met:
            return None, missed[0]
        is_bounded = missed or met[-1] < OVERLOAD * self._bound_per_s
        return min([low, met[-1], *missed[1:2]]), max(high, met[-1]) if is_bounded else None

    @property
    def lower_per_s(self) -> float | None:
        return self.interval[0]

    @property
    def upper_per_s(self) -> float | None:
        return self.interval[1]

    @cached_property
    def per_s(self) -> float | None:
        """Return the estimated capacity, or None if a bound of its interval is None."""
        return float(np.median(self._crossings[1:])) if all(self.interval) else None

    @property
    def first_missed(self) -> StepMetrics | None:
        """Return the step with the lowest rate in or above the interval that missed a goal, or None."""
        missed = [step for step in self.steps if step.missed]
        beyond = [step for step in missed if step.per_s >= (self.lower_per_s or 0.0)]
        return next(iter(beyond or missed), None)

    @property
    def breaks(self) -> Goal | None:
        """Return the goal that is missed first as the rate increases, or None if no offered rate misses a goal."""
        return self.first_missed.missed[0] if self.first_missed else None

    @property
    def verdict(self) -> str:
        """Return `failed`, `undecided` (if the lower bound is unknown or the interval exceeds about ±20 %), or `ok`."""
        if self.failure:
            return FAILED
        is_wide = bool(self.lower_per_s and self.upper_per_s and self.upper_per_s > WIDE * self.lower_per_s)
        return UNDECIDED if is_wide or (self.lower_per_s is None and not self.is_none) else OK

    @property
    def is_none(self) -> bool:
        """Return whether even the lowest rate that may be offered misses a goal."""
        return self.lower_per_s is None and bool(self.steps) and self.steps[0].per_s <= self.least_per_s

    @property
    def nearest_step(self) -> StepMetrics | None:
        """Return the step that met all goals and is nearest to the lower bound, or None if there is none."""
        met = [step for step in self.steps if not step.missed] if self.lower_per_s else []
        return min(met, key=lambda step: abs(math.log(step.per_s / (self.lower_per_s or 1.0))), default=None)

    @cached_property
    def ceiling_per_s(self) -> float | None:
        """Return the rate without a server, or None if it is unknown."""
        records = (each for each in self._result.records if each.is_ceiling and each.case.covers(self.case))
        record = next(records, None)
        return Round(record).rate.per_s if record is not None and record.failure is None else None

    @property
    def of_ceiling(self) -> float | None:
        """Return the capacity as a share of the ceiling, or None if either is unknown."""
        return self.per_s / self.ceiling_per_s if self.per_s and self.ceiling_per_s else None


def _crossing(logs: Floats, excesses: Floats, weights: Floats) -> float:
    """Return the rate at which the isotonic regression is 0.

    The regression pools neighbours that contradict each other. Between the means of two pools, it is interpolated.
    Beyond the lowest and the highest rate, the metric is assumed to be proportional to the rate.
    """
    order = np.argsort(logs)
    logs, excesses, weights = logs[order], excesses[order], weights[order]
    fit = isotonic_regression(excesses, weights=weights)
    starts = fit.blocks[:-1]
    rates = np.add.reduceat(logs * weights, starts) / np.add.reduceat(weights, starts)
    values = fit.x[starts]
    far = 2 * MOST_EXCESS
    ends = [values[0] - far, *values, values[-1] + far], [rates[0] - far, *rates, rates[-1] + far]
    return float(np.exp(np.interp(0.0, *ends)))


def capacities_of(result: Result) -> list[Capacity]:
    """Return the capacity of each case, ordered by server number."""
    cases = list(dict.fromkeys(step.case for step in result.steps))
    return [Capacity(result, case) for case in sorted(cases, key=lambda case: case.sort_key)]


def exit_code(result: Result) -> int:
    """Return 1 if any search failed, 3 if none failed but any is undecided, and 0 otherwise."""
    verdicts = {capacity.verdict for capacity in capacities_of(result)}
    return 1 if FAILED in verdicts else 3 if UNDECIDED in verdicts else 0
