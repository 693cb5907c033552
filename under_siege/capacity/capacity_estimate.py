"""Estimate the capacity of each server (the highest rate that meets all goals), and choose the next rate to offer.

The first step overloads the server. The measured service times are replayed to estimate the knee, and the next steps
offer rates slightly below the knee. If the replay does not match the steps, the search continues between the rates that
met the goals and the rates that missed one.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from under_siege.capacity.knee import Knee, Queue, StepEvidence, estimate_knee, knee_of_replicates, queue_from
from under_siege.capacity.step_metrics import StepMetrics, percentile_of
from under_siege.model.case import Case
from under_siege.model.record import Result
from under_siege.model.requirement import Goal, goal
from under_siege.stats.cpu_speed_over_time import speeds_of
from under_siege.stats.round_statistics import Round

INTERVAL = (0.025, 0.975)
PRECISE = 1.08  # the search stops if the ratio of the upper to the lower bound is smaller
FEWEST, MOST = 3, 12  # minimum and maximum number of steps per server
# Shares of the time budget: longest step before and after the first missed goal; minimum time left for another step.
OVERLOAD, LONG, LEAST = 1 / 10, 1 / 6, 1 / 20
MOST_REQUESTS = 3000  # maximum number of requests per step, unless the step would take less than 2 % of the time budget
TIMEOUT = 1.1  # timeout of a request, as a multiple of the longest limit
STARTUP_S = 1.5  # time for starting and stopping a server, assumed until it has been measured
LEAST_PER_S, LEAST_OF_GUESS = 1.0, 0.1  # the lowest rate is the lower of 1/s and 0.1 times the first guess
ABOVE_CEILING = 1.25  # highest rate for a CPU-bound task, as a multiple of the ceiling
MOST_PER_S = 2000.0  # highest rate that the load generator can offer
BELOW_LIMIT = 0.7  # highest rate after a step that the generator limited, as a share of the rate of that step
CPU_BOUND = 0.5  # CPU time as a share of the response time; at or above it, the ceiling limits the rate
EXPONENT = 0.9  # how strongly CPU-bound service times depend on the speed that the probe measures
SLEEPS = 0.1  # CPU time as a share of the response time; at or below it, the CPU speed has no effect
GUESS = 0.7  # first guess, as a share of the ceiling
TOO_MUCH = 2.0  # factor by which the guess is multiplied in each step until a goal is missed
UNKNOWN_S = 0.1  # response time that is assumed if none is known
OF_SATURATION = 0.9  # next guess, as a share of the throughput under overload
ABOVE_SATURATION = 1.15  # upper limit of the knee, as a multiple of the throughput under overload
NEAR_KNEE = (0.97, 0.9, 0.94)  # rates that the steps offer in turn, as shares of the estimated knee
# Upper limits of the next rate if there is no replay: a multiple of the highest rate that met the goals or, if no rate
# met them, of the lowest rate that missed them.
STEPS_UP, STEPS_DOWN = 2.0, 0.25
TRIED = 2  # number of steps that must miss the goals before STEPS_DOWN applies
# If the lowest rate that missed the goals is more than GAP times the highest rate that met them, the next rate keeps
# at least the share INSIDE of the gap (on a logarithmic scale) away from both.
GAP = 1.25
INSIDE = 0.2
# Factors above or below the median of the knee. If the interval extends beyond FAR, the next rate is at NEXT_TO.
FAR, NEXT_TO = 1.6, 1.25
QUANTILES = (0.5, 0.3, 0.7)  # rates that the steps offer in turn, as quantiles of the estimated knee
ENDS = 0.02  # relative difference below which a rate counts as equal to the lowest or highest possible rate
MOST_SPREAD = 0.3  # maximum standard deviation of the replicates' logarithms; if it is larger, the replay is not used
MOST_PERCENT = 99.9  # percentile that a replay uses instead of the maximum
POINTS = 1500  # size of the grid of rates
WIDE = 1.35  # ratio of the upper to the lower bound (about ±15 %) beyond which the result is undecided
USUAL_STEPS = 5  # number of steps per server that the progress bar assumes
OK, FAILED, UNDECIDED = "ok", "failed", "undecided"


class Capacity:
    """The capacity of one server, estimated from its steps so far, and the choice of its next step."""

    def __init__(self, result: Result, case: Case, task_s: float = 0.0) -> None:
        self.case, self._result = case, result
        every_step = [StepMetrics(step) for step in result.steps]
        self._own = [step for step in every_step if step.case == case]
        self.goals = tuple(goal(text) for text in self._own[0].step.goals) if self._own else ()
        self.title = self._own[0].record.title if self._own else ""
        successful = [step for step in self._own if not step.failure]
        self._limited = [step for step in successful if step.is_limited(self.goals)]
        self._valid = [step for step in successful if step not in self._limited]
        self.steps = sorted(self._valid, key=lambda step: step.per_s)
        speeds = [step.speed for step in every_step if step.speed]
        self._mean_speed = float(np.mean(speeds)) if speeds else None
        self.ceiling_per_s = self._ceiling()
        self._guess = self._guessed(task_s)
        self.least_per_s = min(LEAST_PER_S, LEAST_OF_GUESS * self._guess)
        self.most_per_s = self._highest()

    def _ceiling(self) -> float | None:
        """Return the rate without a server, adjusted to the mean speed of the machine, or None if it is unknown."""
        records = (each for each in self._result.records if each.is_ceiling and each.case.covers(self.case))
        record = next(records, None)
        if record is None or record.failure is not None or (per_s := Round(record).rate.per_s) is None:
            return None
        speeds, shares = speeds_of(record), [step.follows_speed for step in self.steps]
        if not speeds or not self._mean_speed or not shares:
            return per_s
        return per_s * float((self._mean_speed / speeds.mean(0.0, record.load_s or 1.0)) ** np.median(shares))

    def _guessed(self, task_s: float) -> float:
        """Return the first guess of the capacity, from the ceiling or the unloaded response time."""
        if self.ceiling_per_s:
            return GUESS * self.ceiling_per_s
        idle_times = [step.record.idle_answer_s for step in self.steps if step.record.idle_answer_s]
        idle_s = min(idle_times, default=task_s or UNKNOWN_S)
        return min(MOST_PER_S / 2, GUESS * self._result.environment.usable_cpus / max(1e-4, idle_s))

    def _highest(self) -> float:
        """Return the highest rate to offer, limited by the load generator and, for CPU-bound tasks, by the ceiling."""
        shares = [step.follows_speed for step in self.steps]
        is_cpu_bound = not shares or float(np.median(shares)) >= CPU_BOUND
        most = ABOVE_CEILING * self.ceiling_per_s if self.ceiling_per_s and is_cpu_bound else MOST_PER_S
        return max(2 * self.least_per_s, min([most, *(BELOW_LIMIT * step.per_s for step in self._limited)]))

    @cached_property
    def _queue(self) -> Queue | None:
        """Return a queue whose replays resemble the steps, or None if there is no such queue."""
        outcomes = {outcome for step in self.steps for outcome in step.step.arrivals.outcome}
        if not outcomes or outcomes & {"lost", "wrong"}:
            return None
        follows = float(np.median([step.follows_speed for step in self.steps]))
        exponent = EXPONENT * follows if follows > SLEEPS else 0.0
        queue = queue_from([step.requests(self._mean_speed, exponent) for step in self._valid])
        return queue if queue and queue.is_alike else None

    @cached_property
    def _knees(self) -> dict[Goal, Knee]:
        """Return the estimated knee for each goal: the lowest rate that misses the goal."""
        return {goal: knee for goal in self.goals if (knee := self._knee(goal)) is not None}

    def _knee(self, goal: Goal) -> Knee | None:
        kind, percent = percentile_of(goal)
        if self._queue and kind == "response":
            rates = self._queue.rates(min(percent, MOST_PERCENT), goal.limit)
            if np.std(np.log(rates)) < MOST_SPREAD:
                return knee_of_replicates(rates)
        is_counted = any(step.missed(goal)[0] for step in self.steps if np.isinf(step.waits_s).any())
        evidence = []
        for step in self._valid:
            if (excess := step.excess(goal)) is not None:
                counts = step.missed(goal) if is_counted else (0, 0.0)
                rate = step.rate_at(self._mean_speed)
                evidence.append(StepEvidence(rate, excess, step.step.broke and excess > 0, *counts))
        if not evidence:
            return None
        most, guess = self._saturation(goal)
        least = self.least_per_s
        return estimate_knee(evidence, least, max(most, 2 * least), min(most, max(least, guess)))

    def _saturation(self, goal: Goal) -> tuple[float, float]:
        """Return an upper limit and a guess for the knee, based on the server's throughput under overload."""
        highest = self._highest_rate
        missed = [step for step in self.steps if (step.excess(goal) or 0.0) > 0 and step.answered]
        if not missed or not goal.figure.startswith("response_"):
            return highest, self._guess
        most = max(missed, key=lambda step: step.answered_per_s)
        if not most.keeps_pace:
            return highest, math.sqrt(most.answered_per_s * most.per_s)
        limit = ABOVE_SATURATION * max(most.answered_per_s, *self._met_rates, 0.0)
        return min(highest, limit), OF_SATURATION * most.answered_per_s

    @property
    def _highest_rate(self) -> float:
        """Return the highest rate that has been offered or may be offered, which is the upper limit of every knee."""
        return max([self.most_per_s, *(step.per_s for step in self.steps)])

    def _quantile(self, share: float) -> float:
        """Return a quantile of the lowest knee among all goals, assuming that the knees are independent."""
        rates = np.geomspace(self.least_per_s, self._highest_rate, POINTS)
        above = np.prod([1 - knee.below(rates) for knee in self._knees.values()], axis=0)
        return float(np.exp(np.interp(share, 1 - above, np.log(rates))))

    def next_offer(self, budget_s: float) -> tuple[float, float] | None:
        """Return the next rate and its duration, or None if the capacity is known, a step failed, or the time is up."""
        used_s = sum(step.record.case_s or 0.0 for step in self._own)
        startup_s = max((step.startup_s for step in self._own), default=STARTUP_S)
        limits_s = [goal.limit for goal in self.goals if goal.figure.startswith("response_")]
        last_s = TIMEOUT * max(limits_s, default=0.0)  # a step waits this long for its last requests
        time_s = budget_s * (LONG if self._missed_rates else OVERLOAD)
        time_s = min(time_s, budget_s - used_s - startup_s - last_s)
        has_failed, count = any(step.failure for step in self._own), len(self._own)
        if has_failed or count >= MOST or (time_s < LEAST * budget_s and count) or self._is_known():
            return None
        rate = self._next_rate()
        return rate, min(time_s, max(MOST_REQUESTS / rate, 0.02 * budget_s))

    def _is_known(self) -> bool:
        """Return whether the interval is narrow enough, or the knee lies outside the rates that may be offered."""
        if not self.steps:
            return False
        if not self._missed_rates:
            return self.steps[-1].per_s >= self.most_per_s * (1 - ENDS)
        low, high = map(self._quantile, INTERVAL)
        is_below = self._missed_rates[0] <= self.least_per_s * (1 + ENDS)
        return is_below or (len(self._own) >= FEWEST and high / low < PRECISE)

    def _next_rate(self) -> float:
        """Return a rate that should overload the server or, once a goal has been missed, a rate near the knee."""
        if not self._missed_rates:
            return min(self.most_per_s, self._guess * TOO_MUCH ** (1 + len(self.steps)))
        if self._is_replayed:
            rate = NEAR_KNEE[len(self._own) % len(NEAR_KNEE)] * self._quantile(0.5)
            return min(self.most_per_s, max(self.least_per_s, rate))
        return self._clamped(self._most_informative_rate())

    def _most_informative_rate(self) -> float:
        """Return a rate near the knee, or a rate farther above or below it if no step has ruled out a knee there."""
        low, middle, high = map(self._quantile, (INTERVAL[0], 0.5, INTERVAL[1]))
        if high > FAR * middle and not any(step.step.broke and step.per_s <= FAR * middle for step in self.steps):
            return NEXT_TO * middle
        if low < middle / FAR and not any(rate >= middle / FAR for rate in self._met_rates):
            return middle / NEXT_TO
        return self._quantile(QUANTILES[len(self._own) % len(QUANTILES)])

    def _clamped(self, rate: float) -> float:
        """Limit a rate to the allowed range and to a moderate distance from the rates already offered."""
        missed, met = min(self._missed_rates, default=math.inf), max(self._met_rates, default=0.0)
        if 0 < GAP * met < missed < math.inf:  # no rate in this wide gap has been offered yet
            part = (missed / met) ** INSIDE
            rate = min(missed / part, max(met * part, rate))
        if met:
            rate = min(rate, STEPS_UP * met)
        elif len(self._missed_rates) >= TRIED:
            rate = min(rate, STEPS_DOWN * missed)
        return min(self.most_per_s, max(self.least_per_s, rate))

    def missed_at(self, step: StepMetrics) -> list[Goal]:
        """Return the goals that the step missed."""
        return [goal for goal in self.goals if (excess := step.excess(goal)) is not None and excess >= 0]

    @cached_property
    def _missed_rates(self) -> list[float]:
        return [step.per_s for step in self.steps if self.missed_at(step)]

    @cached_property
    def _met_rates(self) -> list[float]:
        return [step.per_s for step in self.steps if not self.missed_at(step)]

    @property
    def failure(self) -> str:
        """Return why there is no estimate, or an empty string if there is one."""
        failures = [step.failure for step in self._own if step.failure]
        failures += [] if self.steps else ["the load generator was too slow for every rate"]
        return next(iter(failures), "")

    @cached_property
    def interval(self) -> tuple[float | None, float | None]:
        """Return the confidence interval; a bound is None if it is unknown or outside the rates that may be offered."""
        if self.failure or not self._knees:
            return None, None
        low, high = map(self._quantile, INTERVAL)
        if not self._met_rates and not self._is_replayed:
            return None, self.steps[0].per_s
        met = max(self._met_rates, default=0.0)
        if met and not self._missed_rates and max(met, high) >= self.most_per_s * (1 - ENDS):
            return min(low, met), None
        return low, high

    @property
    def lower_per_s(self) -> float | None:
        """Return the lower bound of the interval, or None if it is unknown or below the rates that may be offered."""
        return self.interval[0]

    @property
    def upper_per_s(self) -> float | None:
        """Return the upper bound of the interval, or None if it is unknown or above the rates that may be offered."""
        return self.interval[1]

    @cached_property
    def per_s(self) -> float | None:
        """Return the estimated capacity, or None if a bound of its interval is None."""
        return self._quantile(0.5) if all(self.interval) else None

    @cached_property
    def steady_per_s(self) -> float | None:
        """Return the estimate for a constant CPU speed, or None if the speed has no effect or there is no replay."""
        if not (self.per_s and self._queue and self._is_replayed and self._queue.follows_speed):
            return None
        percent, limit_s = percentile_of(self._weakest_goal)[1], self._weakest_goal.limit
        return float(np.median(self._queue.rates(min(percent, MOST_PERCENT), limit_s, is_steady=True)))

    @property
    def _is_replayed(self) -> bool:
        return self._knees[self._weakest_goal].is_replayed

    @cached_property
    def _weakest_goal(self) -> Goal:
        """Return the goal that the lowest rate misses most or, if it misses none, the goal with the lowest knee."""
        missed = [goal for goal in self.missed_at(self.steps[0]) if not self._knees[goal].is_replayed]
        if missed:
            return max(missed, key=lambda goal: self.steps[0].excess(goal) or 0.0)
        return min(self._knees, key=lambda goal: self._knees[goal].rate(0.5))

    @property
    def breaks(self) -> Goal | None:
        """Return the goal that is missed first as the rate increases, or None if no offered rate misses a goal."""
        return self._weakest_goal if self.upper_per_s else None

    @property
    def limited(self) -> StepMetrics | None:
        """Return the step with the lowest rate that the generator could not offer, or None if there is none."""
        return min(self._limited, key=lambda step: step.per_s, default=None)

    @property
    def verdict(self) -> str:
        """Return `failed`, `undecided` (if the lower bound is unknown or the interval exceeds about ±15 %), or `ok`."""
        if self.failure:
            return FAILED
        is_wide = bool(self.lower_per_s and self.upper_per_s and self.upper_per_s > WIDE * self.lower_per_s)
        return UNDECIDED if is_wide or (self.lower_per_s is None and not self.is_none) else OK

    @property
    def is_none(self) -> bool:
        """Return whether even the lowest rate that may be offered misses a goal."""
        lowest = min((step.per_s for step in self.steps), default=math.inf)
        return self.lower_per_s is None and lowest <= self.least_per_s * (1 + ENDS)

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


def capacities_of(result: Result) -> list[Capacity]:
    """Return the capacity of each case, ordered by server number."""
    cases = list(dict.fromkeys(step.case for step in result.steps))
    return [Capacity(result, case) for case in sorted(cases, key=lambda case: case.sort_key)]


def exit_code(result: Result) -> int:
    """Return 1 if any search failed, 3 if none failed but any is undecided, and 0 otherwise."""
    verdicts = {capacity.verdict for capacity in capacities_of(result)}
    return 1 if FAILED in verdicts else 3 if UNDECIDED in verdicts else 0
