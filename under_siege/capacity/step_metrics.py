"""Compute the metrics of a step: latency, goodput and resource use at one arrival rate."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from under_siege.capacity.knee import Seen
from under_siege.model.record import RateStep
from under_siege.model.threshold import Goal
from under_siege.stats.cpu_speed import speeds_of

Floats = NDArray[np.float64]

_PERCENTS = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
LATE_S = 0.002  # the generator is late beyond this value (p99)
MUCH_BY_OTHERS = 0.1  # share of all CPUs; beyond it, other programs disturbed the step
PACE = 0.5  # share of the throughput of a worker that is never idle
SERVED_S = 0.1  # a request was served at the latest this long before its answer
SMOOTHED_S = 0.3  # on both sides, because single samples of the speed probe are noisy
TINY = 0.01  # share of the usual speed; no machine is slower
AWAKE = 0.9  # share of a CPU; beyond it, the generator is the limit


def percentile_of(goal: Goal) -> tuple[str, float]:
    """Return `response` or `ping`, and the percentage; an empty name if the goal is about something else."""
    kind, _, percentile = goal.figure.removesuffix("_s").rpartition("_")
    return (kind, _PERCENTS[percentile]) if percentile in _PERCENTS else ("", 100.0)


class Offered:
    """The metrics of a step; refused, wrong and lost requests have infinite latency."""

    def __init__(self, step: RateStep) -> None:
        self.step, self.record, self.case = step, step.record, step.case
        self.per_s = step.arrivals_per_s

    @property
    def failure(self) -> str:
        """Return why there are no data; empty if there are."""
        if self.record.failure is not None:
            return self.record.failure.message
        return "" if self.step.arrivals.due_s else "nothing was sent"

    @cached_property
    def waits_s(self) -> Floats:
        """Return the latency of each request from when it was due."""
        arrivals = self.step.arrivals
        lost = np.array([one not in ("", "unanswered") for one in arrivals.outcome], dtype=bool)
        waits = np.asarray(arrivals.ended_s, dtype=np.float64) - np.asarray(arrivals.due_s, dtype=np.float64)
        return np.where(lost, np.inf, np.maximum(waits, 1e-6))

    @cached_property
    def ping_waits_s(self) -> Floats:
        """Return the latency of each ping that was due before the step ended."""
        pings, until_s = self.record.pings, self.step.seen_until_s
        due = np.asarray(pings.due_s, dtype=np.float64)
        waits = np.asarray(pings.waited_s, dtype=np.float64)
        lost = np.array([one not in ("", "not answered") for one in pings.problem], dtype=bool)
        return np.where(lost, np.inf, np.maximum(waits, 1e-6))[due <= until_s]

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """Return which requests were answered correctly."""
        return np.array([not one for one in self.step.arrivals.outcome], dtype=bool)

    def percentile_s(self, kind: str, percent: float) -> float | None:
        """Return a percentile of `response` or `ping` latency: infinite if too many were lost, None without data."""
        waits = self.waits_s if kind == "response" else self.ping_waits_s
        return float(np.sort(waits)[min(len(waits) - 1, int(percent / 100 * len(waits)))]) if len(waits) else None

    def value(self, goal: Goal) -> float | None:
        """Return the figure that the goal is about."""
        kind, percent = percentile_of(goal)
        if kind:
            return self.percentile_s(kind, percent)
        return {
            "availability_pct": 100 * float(np.mean(self.right)) if len(self.right) else None,
            "cpu_s_per_transaction": self.cpu_s,
            "memory_bytes": self.memory_bytes,
        }.get(goal.figure)

    def excess(self, goal: Goal) -> float | None:
        """Return how far it is beyond the limit, as a logarithm: negative where the goal holds.

        A percentile that never came is as far beyond as more were lost than may be.
        """
        value = self.value(goal)
        if value is None:
            return None
        limit = goal.limit
        if goal.figure == "availability_pct":  # the share that is missing
            value, limit = 100 - value, 100 - limit
        if value == math.inf:
            kind, percent = percentile_of(goal)
            waits, allowed = self.waits_s if kind == "response" else self.ping_waits_s, 1 - percent / 100
            return max(0.0, math.log(float(np.mean(np.isinf(waits))) / allowed)) if allowed else math.inf
        return math.log(max(value, 1e-9) / limit)

    def missed(self, goal: Goal) -> tuple[int, float]:
        """Return how many requests missed a response-time limit, and how many may; 0 for other goals."""
        kind, percent = percentile_of(goal)
        if kind != "response":
            return 0, 0.0
        return int(np.sum(self.waits_s > goal.limit)), len(self.waits_s) * (1 - percent / 100)

    @property
    def lost(self) -> int:
        """Return the number of refused, wrong and lost requests."""
        return int(np.sum(np.isinf(self.waits_s)))

    @property
    def answered(self) -> int:
        """Return the number of correct answers."""
        return int(np.sum(self.right))

    @property
    def answered_per_s(self) -> float:
        """Return the rate of correct answers until the step ended."""
        return self.answered / self.step.seen_until_s if self.step.seen_until_s > 0 else 0.0

    @property
    def keeps_pace(self) -> bool:
        """Whether it answered about as much as one worker can; work shared by ever more requests gets done late."""
        return self.answered_per_s * (self.record.idle_answer_s or 0.0) >= PACE

    def good_per_s(self, limit_s: float) -> float:
        """Return the goodput: correct answers within the limit per second."""
        due_s = self.step.arrivals.due_s
        seen_s = self.step.seen_until_s if self.step.broke else len(due_s) / self.per_s
        return float(np.sum(self.right & (self.waits_s <= limit_s))) / seen_s if seen_s > 0 else 0.0

    @cached_property
    def cpu_s(self) -> float | None:
        """Return the CPU time of the server and its children per correct answer."""
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
        """Return how far the rate follows the speed of the machine: the CPU share of an unloaded response."""
        idle_s = self.record.idle_answer_s
        return min(1.0, self.cpu_s / idle_s) if self.cpu_s and idle_s else 0.0

    def seen(self, usual_speed: float | None, exponent: float) -> Seen:
        """Return what a replay needs; service times follow the speed of the machine with that exponent."""
        due_s, slowness = np.asarray(self.step.arrivals.due_s, dtype=np.float64), np.ones(len(self.right))
        if exponent and usual_speed and (speeds := speeds_of(self.record)):
            end_s = np.where(np.isinf(self.waits_s), due_s, due_s + self.waits_s)
            begin_s = np.maximum(due_s, end_s - SERVED_S)
            means = speeds.means(begin_s - SMOOTHED_S, end_s + SMOOTHED_S)
            slowness = (usual_speed / np.maximum(means, TINY * usual_speed)) ** exponent
        return Seen(due_s, self.waits_s, self.right, slowness)

    @property
    def by_others(self) -> float:
        """Return the share of CPU time used by other programs."""
        machine, used = self.record.machine, self.record.samples.cpu_s
        if machine is None or machine.total_s <= 0 or len(used) < 2:
            return 0.0
        ours = used[-1] - used[0] + (self.record.tool_cpu_s or 0.0) + (self.record.bench_cpu_s or 0.0)
        return max(0.0, machine.busy_s - ours) / machine.total_s

    @cached_property
    def late_s(self) -> float:
        """Return the p99 of how late requests were sent."""
        arrivals = self.step.arrivals
        late = np.subtract(arrivals.sent_s, arrivals.due_s)
        return max(0.0, float(np.percentile(late, 99))) if len(late) else 0.0

    def is_limited(self, goals: list[Goal]) -> bool:
        """Return whether the load generator was the bottleneck, not the server."""
        shortest = min((one.limit for one in goals if one.figure.startswith("response_")), default=1.0)
        awake = self.step.generator_awake
        return self.late_s > max(LATE_S, 0.1 * shortest) or (awake is not None and awake > AWAKE)
