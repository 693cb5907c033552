"""Compute the metrics of a step, such as latency, goodput and resource usage at one arrival rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from under_siege.capacity.knee import StepRequests
from under_siege.model.record import RateStep
from under_siege.model.requirement import Goal
from under_siege.stats.cpu_speed_over_time import speeds_of

Floats = NDArray[np.float64]

_PERCENTS = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
LATE_S = 0.002  # p99 of the delay before a request is sent; if it is longer, the generator may be the limit
MUCH_BY_OTHERS = 0.1  # share of all CPUs; if other programs use more, they disturbed the step
PACE = 0.5  # minimum throughput, as a share of the throughput of one worker that is always busy
SERVED_S = 0.1  # period before a response in which the request is assumed to be in service
SMOOTHED_S = 0.3  # extends this period on both sides, because single samples of the speed probe are noisy
TINY = 0.01  # minimum speed, as a share of the mean speed
AWAKE = 0.9  # share of a CPU; if the generator uses or waits for more, it is the limit


def percentile_of(goal: Goal) -> tuple[str, float]:
    """Return `response` or `ping` (an empty string if the goal does not limit a percentile), and the percentile."""
    kind, _, percentile = goal.figure.removesuffix("_s").rpartition("_")
    return (kind, _PERCENTS[percentile]) if percentile in _PERCENTS else ("", 100.0)


class StepMetrics:
    """The metrics of a step, in which refused, lost and wrongly answered requests have infinite latency."""

    def __init__(self, step: RateStep) -> None:
        self.step, self.record, self.case = step, step.record, step.case
        self.per_s = step.arrivals_per_s

    @property
    def failure(self) -> str:
        """Return why the step has no data, or an empty string if it has data."""
        if self.record.failure is not None:
            return self.record.failure.message
        return "" if self.step.arrivals.due_s else "no request was sent"

    @cached_property
    def waits_s(self) -> Floats:
        """Return the latency of each request, measured from its due time."""
        arrivals = self.step.arrivals
        lost = np.array([outcome not in ("", "unanswered") for outcome in arrivals.outcome], dtype=bool)
        return np.where(lost, np.inf, np.maximum(np.subtract(arrivals.ended_s, arrivals.due_s), 1e-6))

    @cached_property
    def ping_waits_s(self) -> Floats:
        """Return the latency of each ping that was due before the step ended."""
        pings = self.record.pings
        lost = np.array([problem not in ("", "not answered") for problem in pings.problem], dtype=bool)
        waits = np.where(lost, np.inf, np.maximum(pings.waited_s, 1e-6))
        return waits[np.asarray(pings.due_s) <= self.step.seen_until_s]

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """Return whether each request was answered correctly."""
        return np.array([not outcome for outcome in self.step.arrivals.outcome], dtype=bool)

    def percentile_s(self, kind: str, percent: float) -> float | None:
        """Return a percentile of `response` or `ping` latency, which may be infinite, or None if there is no data."""
        waits = self.waits_s if kind == "response" else self.ping_waits_s
        return float(np.sort(waits)[min(len(waits) - 1, int(percent / 100 * len(waits)))]) if len(waits) else None

    def value(self, goal: Goal) -> float | None:
        """Return the value of the metric that the goal limits, or None if it is unknown."""
        kind, percent = percentile_of(goal)
        if kind:
            return self.percentile_s(kind, percent)
        return {
            "availability_pct": 100 * float(np.mean(self.right)) if len(self.right) else None,
            "cpu_s_per_transaction": self.cpu_s,
            "memory_bytes": self.memory_bytes,
        }.get(goal.figure)

    def excess(self, goal: Goal) -> float | None:
        """Return the logarithm of the metric divided by its limit (negative if the goal is met), or None if unknown.

        If the percentile is infinite, return the logarithm of the share of lost requests divided by the allowed share.
        """
        value = self.value(goal)
        if value is None:
            return None
        limit = goal.limit
        if goal.figure == "availability_pct":  # compare the unavailable shares
            value, limit = 100 - value, 100 - limit
        if value == math.inf:
            kind, percent = percentile_of(goal)
            waits, allowed = self.waits_s if kind == "response" else self.ping_waits_s, 1 - percent / 100
            return max(0.0, math.log(float(np.mean(np.isinf(waits))) / allowed)) if allowed else math.inf
        return math.log(max(value, 1e-9) / limit)

    def missed(self, goal: Goal) -> tuple[int, float]:
        """Return how many requests exceeded the response-time limit and how many are allowed to (0 for other goals)."""
        kind, percent = percentile_of(goal)
        if kind != "response":
            return 0, 0.0
        return int(np.sum(self.waits_s > goal.limit)), len(self.waits_s) * (1 - percent / 100)

    @property
    def startup_s(self) -> float:
        """Return how many seconds it took to start and stop the server."""
        return max(0.0, (self.record.case_s or 0.0) - self.step.seen_until_s)

    @property
    def answered(self) -> int:
        """Return the number of correct responses."""
        return int(np.sum(self.right))

    @property
    def answered_per_s(self) -> float:
        """Return the mean rate of correct responses during the step."""
        return self.answered / self.step.seen_until_s if self.step.seen_until_s > 0 else 0.0

    def rate_at(self, mean_speed: float | None) -> float:
        """Return the rate that would load the server equally at the mean speed of the machine."""
        if not mean_speed or not self.speed:
            return self.per_s
        return self.per_s * float((mean_speed / self.speed) ** self.follows_speed)

    @property
    def keeps_pace(self) -> bool:
        """Return whether the throughput reaches `PACE`; too many concurrent tasks can slow a server down."""
        return self.answered_per_s * (self.record.idle_answer_s or 0.0) >= PACE

    def good_per_s(self, limit_s: float) -> float:
        """Return the goodput: the number of correct responses per second within the latency limit."""
        due_s = self.step.arrivals.due_s
        seen_s = self.step.seen_until_s if self.step.broke else len(due_s) / self.per_s
        return float(np.sum(self.right & (self.waits_s <= limit_s))) / seen_s if seen_s > 0 else 0.0

    @cached_property
    def cpu_s(self) -> float | None:
        """Return the CPU time that the server and its children used per correct response."""
        used = self.record.samples.cpu_s
        return (used[-1] - used[0]) / self.answered if len(used) > 1 and self.answered else None

    @property
    def memory_bytes(self) -> float | None:
        """Return the peak memory of the server and its children."""
        return max(self.record.samples.memory_bytes, default=None)

    @cached_property
    def speed(self) -> float | None:
        """Return the speed of the machine, in the units of the speed probe."""
        speeds = speeds_of(self.record)
        return speeds.mean(0.0, max(0.1, self.step.seen_until_s)) if speeds else None

    @cached_property
    def follows_speed(self) -> float:
        """Return how strongly the rate depends on the CPU speed: the share of CPU time in an unloaded response."""
        idle_s = self.record.idle_answer_s
        return min(1.0, self.cpu_s / idle_s) if self.cpu_s and idle_s else 0.0

    def requests(self, mean_speed: float | None, exponent: float) -> StepRequests:
        """Return the requests for a replay; `exponent` is how strongly service times depend on the speed."""
        due_s, slowness = np.asarray(self.step.arrivals.due_s, dtype=np.float64), np.ones(len(self.right))
        if exponent and mean_speed and (speeds := speeds_of(self.record)):
            end_s = np.where(np.isinf(self.waits_s), due_s, due_s + self.waits_s)
            begin_s = np.maximum(due_s, end_s - SERVED_S)
            means = speeds.means(begin_s - SMOOTHED_S, end_s + SMOOTHED_S)
            slowness = (mean_speed / np.maximum(means, TINY * mean_speed)) ** exponent
        return StepRequests(due_s, self.waits_s, self.right, slowness)

    @property
    def by_others(self) -> float:
        """Return the share of all CPU time that other programs used."""
        machine, used = self.record.machine, self.record.samples.cpu_s
        if machine is None or machine.total_s <= 0 or len(used) < 2:
            return 0.0
        ours = used[-1] - used[0] + (self.record.tool_cpu_s or 0.0) + (self.record.bench_cpu_s or 0.0)
        return max(0.0, machine.busy_s - ours) / machine.total_s

    @cached_property
    def late_s(self) -> float:
        """Return the 99th percentile of the delay between a request's due time and its sending."""
        late = np.subtract(self.step.arrivals.sent_s, self.step.arrivals.due_s)
        return max(0.0, float(np.percentile(late, 99))) if len(late) else 0.0

    def is_limited(self, goals: Sequence[Goal]) -> bool:
        """Return whether the load generator was the bottleneck rather than the server."""
        shortest = min((goal.limit for goal in goals if goal.figure.startswith("response_")), default=1.0)
        awake = self.step.generator_awake
        return self.late_s > max(LATE_S, 0.1 * shortest) or (awake is not None and awake > AWAKE)
