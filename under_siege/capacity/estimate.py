"""Estimate the capacity of each server (the highest rate that meets all goals), and choose the next rate to offer.

A closed-loop siege measures the saturation rate of the server. The steps then offer rates below it, with Poisson
arrivals: first halfway between the highest rate that met the goals and the lowest rate that missed one, then around the
estimate. A metric can only get worse as the rate increases, so the estimate is the rate at which the isotonic
regression over all steps reaches the limit.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.optimize import isotonic_regression

from under_siege.capacity.step_metrics import MOST_EXCESS, REPLICATES, Floats, StepMetrics
from under_siege.judge.goal import Goal, goal
from under_siege.judge.round_statistics import Round
from under_siege.paths import USERS
from under_siege.record.case import Case
from under_siege.record.result import Result

INTERVAL = (0.025, 0.975)
WIDE = 1.5  # ratio of the upper to the lower bound (±20 %) beyond which the result is undecided
MORE_USERS, MOST_USERS = 4, 400  # factor for the users of the next siege; maximum number of users
IDLE = 2.0  # if the mean response time is below this multiple of that of the idle server, the users are too few
LOWEST, HIGHEST = 0.3, 1.0  # first range of rates, as shares of the saturation rate
OVERLOAD = 1.1  # share of the saturation rate at which a goal for the responses certainly fails, as the queue grows
FURTHER = 1.15  # factor for the next rate if even the saturation rate meets all goals
FALL = 0.55  # factor for the next rate if no rate has met all goals
NARROW = 1.25  # ratio of the lowest rate that missed a goal to the highest that met all; then the search closes in
CLOSING = 2 / 3  # share of the time after which the search closes in
AROUND = (0.95, 1.05)  # rates of the last steps, as shares of the estimate
STEP, SHORTEST_S = 1 / 12, 2.0  # share of the time for a siege or step, and its minimum
LEAST = 1 / 20  # the search ends if less than this share of the time is left
MOST = 12  # maximum number of steps per server
FEWEST, MOST_REQUESTS = 2, 10_000  # minimum and maximum number of requests per step
TIMEOUT = 1.1  # how long a step waits for its last responses, as a multiple of the longest limit
STARTUP_S = 1.5  # time for starting and stopping a server, assumed until it has been measured
LEAST_PER_S, LEAST_SHARE = 1.0, 0.05  # the lowest rate is the lower of 1/s and this share of the saturation rate
MOST_PER_S, MOST_SHARE = 2000.0, 1.4  # the highest rate: what the generator can offer; share of the saturation rate
BELOW_LIMIT = 0.7  # highest rate after a step that the generator limited, as a share of the rate of that step
ENDS = 0.02  # relative difference below which a rate counts as equal to the lowest or highest possible rate
SPEED_SHARE = 0.6  # share of the scatter of the CPU speed between steps that does not average out
USUAL_STEPS = 7  # number of steps per server, with the siege, that the progress bar assumes
OK, FAILED, UNDECIDED = "ok", "failed", "undecided"


class Capacity:
    """The capacity of one server, estimated from its steps so far, and the choice of its next step."""

    def __init__(self, result: Result, case: Case) -> None:
        self.case, self._result = case, result
        self._own = [StepMetrics(step) for step in result.steps if step.case == case]
        self.goals = tuple(goal(text) for text in self._own[0].step.goals) if self._own else ()
        self.title = self._own[0].record.title if self._own else ""
        self._sieges = [step for step in self._own if step.step.closed_users and not step.failure]
        self._offered = [step for step in self._own if not step.step.closed_users and not step.failure]
        self._limited = [step for step in self._offered if step.is_limited(self.goals)]
        self.steps = sorted((step for step in self._offered if step not in self._limited), key=lambda step: step.per_s)
        self.saturation_per_s = max((step.per_s for step in self._sieges), default=None)
        self.least_per_s = min(LEAST_PER_S, LEAST_SHARE * (self.saturation_per_s or MOST_PER_S))
        highest = MOST_SHARE * (self.saturation_per_s or 0.0) if self._is_saturated else MOST_PER_S
        limits = [MOST_PER_S, highest, *(BELOW_LIMIT * step.per_s for step in self._limited)]
        self.most_per_s = max(2 * self.least_per_s, min(limits))

    @cached_property
    def ceiling_per_s(self) -> float | None:
        """Return the rate without a server, or None if it is unknown."""
        records = (each for each in self._result.records if each.is_ceiling and each.case.covers(self.case))
        record = next(records, None)
        return Round(record).rate.per_s if record is not None and record.failure is None else None

    @cached_property
    def _points(self) -> tuple[Floats, Floats, Floats]:
        """Return the logarithm of each rate, the largest excess over any goal (a row for each rate), and the weights.

        The columns are the measurement and its replicates. A point at `OVERLOAD` stands for all higher rates.
        """
        rows = [[each for goal in self.goals if (each := step.excesses(goal)) is not None] for step in self.steps]
        excesses = [np.max(row, axis=0) if row else np.full(1 + REPLICATES, -MOST_EXCESS) for row in rows]
        rates, weights = [step.per_s for step in self.steps], [float(len(step.waits_s)) for step in self.steps]
        if rates and rates[-1] < OVERLOAD * self._bound_per_s:
            rates.append(OVERLOAD * self._bound_per_s)
            excesses.append(np.full(1 + REPLICATES, MOST_EXCESS))
            weights.append(max(weights))
        return np.log(rates), np.array(excesses), np.array(weights)

    @property
    def _bound_per_s(self) -> float:
        """Return the saturation rate if it bounds the capacity, or 0 if no goal needs a response to every request."""
        needs_responses = any(goal.figure.startswith(("response_", "availability_")) for goal in self.goals)
        return self.saturation_per_s or 0.0 if needs_responses and self._is_saturated else 0.0

    @cached_property
    def _crossings(self) -> Floats:
        """Return the rate at which the isotonic regression reaches the limit, as measured and in each replicate.

        CPU-bound steps ran at different CPU speeds, so the rates of the replicates scatter as much as these speeds.
        """
        logs, excesses, weights = self._points
        speeds = [step.speed for step in self.steps if step.speed]
        scatter = SPEED_SHARE * float(np.std(np.log(speeds))) if speeds else 0.0
        rates = logs[:, None] + np.random.default_rng(len(logs)).normal(0.0, scatter, excesses.shape)
        rates[:, 0] = logs
        return np.array([_crossing(*column, weights) for column in zip(rates.T, excesses.T, strict=True)])

    def next_offer(self, budget_s: float) -> tuple[float, float, int] | None:
        """Return the next rate, its duration, and the number of users in a closed loop (then the rate is 0).

        Return None if the capacity is known, a step failed, or the time is up.
        """
        used_s = sum(step.record.case_s or 0.0 for step in self._own)
        limits_s = [goal.limit for goal in self.goals if goal.figure.startswith("response_")]
        startup_s = max((step.startup_s for step in self._own), default=STARTUP_S)
        beside_s = startup_s + TIMEOUT * max(limits_s, default=0.0)
        left_s, step_s = budget_s - used_s - beside_s, max(SHORTEST_S, STEP * budget_s)
        if any(step.failure for step in self._own) or len(self._own) >= MOST:
            return None
        if users := self._users_of_next_siege():
            return 0.0, step_s, users
        if self.steps and left_s < LEAST * budget_s:
            return None
        low, high = self._bracket
        if low >= self.most_per_s * (1 - ENDS) or (high or math.inf) <= self.least_per_s * (1 + ENDS):
            return None
        if used_s >= CLOSING * budget_s or low < (high or self._bound_per_s) < NARROW * low:
            step_s = (left_s - beside_s) / 2 if left_s - beside_s > 4 * step_s else left_s
            rate = AROUND[len(self._own) % len(AROUND)] * (self.per_s or low or high or self.least_per_s)
        else:
            rate = self._between(low, high)
        rate = min(self.most_per_s, max(self.least_per_s, rate, FEWEST / step_s))
        return rate, max(LEAST * budget_s, min(step_s, left_s, MOST_REQUESTS / rate)), 0

    @property
    def _is_saturated(self) -> bool:
        """Return whether the users of the last siege, rather than the load generator, kept the server busy."""
        if not self._sieges or self._sieges[-1].is_limited(self.goals):
            return False
        last = self._sieges[-1]
        return last.step.closed_users >= IDLE * (last.record.idle_answer_s or 0.0) * last.per_s

    def _users_of_next_siege(self) -> int:
        """Return how many users the next siege needs to saturate the server, or 0 if no siege is needed."""
        if not self._sieges:
            return USERS
        last, users = self._sieges[-1], self._sieges[-1].step.closed_users
        return 0 if self._is_saturated or last.is_limited(self.goals) or users >= MOST_USERS else MORE_USERS * users

    @property
    def _bracket(self) -> tuple[float, float]:
        """Return the highest rate that met all goals and the lowest that missed one, or 0, by isotonic regression."""
        if not self.steps:
            return 0.0, 0.0
        logs, excesses, weights = self._points
        fit = isotonic_regression(excesses[:, 0], weights=weights).x[: len(self.steps)]
        rates = np.exp(logs[: len(fit)])
        return float(max(rates[fit < 0], default=0.0)), float(min(rates[fit >= 0], default=0.0))

    def _between(self, low: float, high: float) -> float:
        """Return a rate between the highest that met all goals and the lowest that missed one (0 if there is none)."""
        highest = HIGHEST * (self.saturation_per_s or self.most_per_s)
        if not low and high:
            return FALL * high
        if low and not high and low > highest / FURTHER:
            return FURTHER * low
        return math.sqrt((low or LOWEST * highest) * (high or highest))

    def missed_at(self, step: StepMetrics) -> list[Goal]:
        """Return the goals that the step missed."""
        return [goal for goal in self.goals if (excess := step.excess(goal)) is not None and excess >= 0]

    @property
    def failure(self) -> str:
        """Return why there is no estimate, or an empty string if there is one."""
        why = "the load generator was too slow for every rate" if self._limited else "no rate was offered"
        failures = [step.failure for step in self._own if step.failure]
        return next(iter([*failures, *([] if self.steps else [why])]), "")

    @cached_property
    def interval(self) -> tuple[float | None, float | None]:
        """Return the confidence interval; a bound is None if it is unknown or outside the rates that may be offered.

        The interval contradicts no step: the upper bound is not below a rate that met all goals, and the lower bound is
        not above the highest of them, nor above a rate if two steps at this or a lower rate missed a goal.
        """
        if self.failure:
            return None, None
        low, high = map(float, np.quantile(self._crossings[1:], INTERVAL, method="nearest"))
        missed = [step.per_s for step in self.steps if self.missed_at(step)]
        met = [step.per_s for step in self.steps if not self.missed_at(step)]
        if not met:
            return None, missed[0]
        return min([low, max(met), *missed[1:2]]), max(high, *met) if missed or self._bound_per_s else None

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
        missed = [step for step in self.steps if self.missed_at(step)]
        beyond = [step for step in missed if step.per_s >= (self.lower_per_s or 0.0)]
        return next(iter(beyond or missed), None)

    @property
    def breaks(self) -> Goal | None:
        """Return the goal that is missed first as the rate increases, or None if no offered rate misses a goal."""
        step = self.first_missed
        return max(self.missed_at(step), key=lambda goal: step.excess(goal) or 0.0) if step else None

    @property
    def limited(self) -> StepMetrics | None:
        """Return the step with the lowest rate that the generator could not offer, or None if there is none."""
        return min(self._limited, key=lambda step: step.per_s, default=None)

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
        return self.lower_per_s is None and bool(self.steps) and self.steps[0].per_s <= self.least_per_s * (1 + ENDS)

    @property
    def nearest_step(self) -> StepMetrics | None:
        """Return the step that met all goals and is nearest to the lower bound, or None if there is none."""
        lower = self.lower_per_s
        met = [step for step in self.steps if not self.missed_at(step)] if lower else []
        return min(met, key=lambda step: abs(math.log(step.per_s / (lower or 1.0))), default=None)

    @property
    def in_time_s(self) -> float:
        """Return the latency limit for goodput, in seconds: the limit of the strictest response-time goal."""
        return min((goal.limit for goal in self.goals if goal.figure.startswith("response_")), default=math.inf)

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
    fit = isotonic_regression(excesses[order], weights=weights[order])
    starts = fit.blocks[:-1]
    rates = np.add.reduceat(logs[order] * weights[order], starts) / np.add.reduceat(weights[order], starts)
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
