"""Compute the metrics of a step, such as latency, goodput and resource usage at one arrival rate."""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from under_siege.judge.cpu_speed_over_time import speeds_of
from under_siege.judge.estimators import SHORTEST_S, Rows, Waits, first_events, gaps
from under_siege.judge.goal import Goal, goal
from under_siege.judge.metrics import METRICS
from under_siege.judge.round_statistics import Round
from under_siege.judge.suspicions import HARDLY_BUSY
from under_siege.record.record import RateStep
from under_siege.record.requests import LATE, LOAD, PING

Floats = NDArray[np.float64]
Samples = tuple[Floats, Floats]

# Delay before a request is sent, as a share of the strictest limit; if it is longer, the step is ignored.
MOST_DELAY = 0.1
CPU_BOUND = 0.5  # minimum CPU time of a CPU-bound task, as a share of the response time of the idle server
AWAKE = 0.9  # share of a CPU; if the load generator uses or waits for more, the step is ignored
REPLICATES = 300
BLOCK_S = 1.0  # length of the bootstrap's blocks, because the latencies of neighbouring requests are alike
# Standard deviation of the logarithm of a percentile that one request exceeds. It shrinks with the square root of their
# number, which counts as at least FEWEST_BEYOND. scripts/simulate_capacity.py shows how many intervals hold the truth.
SMOOTHING, FEWEST_BEYOND = 1.2, 4.0
MOST_EXCESS = math.log(3)  # how far a metric exceeds its limit counts up to this factor
OUTCOMES = {
    "refused": "refused (503)",
    "limited": "rejected by a rate limit (429)",
    "wrong": "answered wrongly",
    "lost": "lost",
}


class StepMetrics:
    """The metrics of a step, in which refused, lost and wrongly answered requests have infinite latency."""

    def __init__(self, step: RateStep) -> None:
        record, rows = step.record, Rows.of(step.record.requests, LOAD)
        self.step = step
        self.record = record
        self.case = step.case
        self.per_s = step.arrivals_per_s
        self.goals = tuple(map(goal, step.goals))
        self.rows = rows = rows[np.argsort(rows.due_s, kind="stable")]
        self.failure = "" if len(rows) else "no request was sent"  # why the step has no data; empty if it has data
        if record.failure:
            self.failure = record.failure.message
        self.startup_s = max(0.0, (record.case_s or 0.0) - step.seen_until_s)  # to start and stop the server
        # The latency limit for goodput: the limit of the strictest response-time goal.
        limits_s = (each.limit for each in self.goals if each.figure.startswith("response_") and not each.request)
        self.in_time_s = min(limits_s, default=math.inf)
        self.right = rows.is_correct
        self._has_failed = ~rows.is_correct & ~rows.is_open
        # When each request was due, and its latency since then, by kind of latency.
        self.samples = {"response": (rows.due_s, _at_least(np.where(self._has_failed, np.inf, rows.waited_s)))}
        self.samples["ping"] = self._pings()
        self.samples["first_event"] = self.samples["gap"] = np.empty(0), np.empty(0)
        if record.stream:
            firsts_s = np.where(self._has_failed, np.inf, first_events(rows).waited_s)
            self.samples["first_event"] = rows.due_s, _at_least(firsts_s)
            self.samples["gap"] = self._gaps()
        self.waits_s = self.samples["response"][1]
        used_s, answered = record.samples.cpu_s, int(np.sum(self.right))
        self.cpu_s = (used_s[-1] - used_s[0]) / answered if len(used_s) > 1 and answered else None  # per response
        self.memory_bytes = max(record.samples.memory_bytes, default=None)  # of the server and its children
        # How long after its due time a request was sent (p99). If it is long, the load generator was the bottleneck.
        self.late_s = max(0.0, float(np.percentile(rows.sent_s - rows.due_s, 99))) if len(rows) else 0.0
        is_late = self.late_s > MOST_DELAY * min(self.in_time_s, 1.0)
        self.is_limited = is_late or (step.generator_awake or 0.0) > AWAKE

    def _pings(self) -> Samples:
        pings = Rows.of(self.record.requests, PING)
        pings = pings[pings.due_s <= self.step.seen_until_s]
        is_known = pings.is_correct | (pings.outcome == LATE)
        return pings.due_s, _at_least(np.where(is_known, pings.waited_s, np.inf))

    def _gaps(self) -> Samples:
        """Return when the stream of each gap was due, and the gap; all gaps of a stream that failed are infinite.

        The last gap of an unfinished stream lasts until the end of the step.
        """
        due_s, gaps_s = [np.empty(0)], [np.empty(0)]
        for index in np.flatnonzero(np.isfinite(self.rows.first_s)):
            row = self.rows[index : index + 1]
            waited_s = np.full(len(row.gaps_s[0]) + 1, np.inf) if self._has_failed[index] else gaps(row).waited_s
            gaps_s.append(_at_least(waited_s))
            due_s.append(np.full(len(waited_s), row.due_s[0]))
        return np.concatenate(due_s), np.concatenate(gaps_s)

    @property
    def shares(self) -> dict[str, float]:
        """Return the share of requests for each outcome in `OUTCOMES`, and of correct or pending ones that are late."""
        counts, total = Counter(self.rows.outcome.tolist()), len(self.waits_s)
        late = int(np.sum(np.isfinite(self.waits_s) & (self.waits_s > self.in_time_s)))
        return {**{name: counts[name] / total for name in OUTCOMES}, "late": late / total}

    def value(self, key: str, request: str = "") -> float | None:
        """Return the value of one of `METRICS`, or None if it is unknown; percentiles may be infinite.

        Args:
            request: the request of a mix whose responses count, such as `GET /list`; empty: all requests.
        """
        metric, of_request = METRICS[key], self._is_of(request)
        if metric.percent:
            waits = self.samples[metric.latency][1]
            waits = waits[of_request] if request else waits
            return Waits(waits, np.ones(len(waits), dtype=bool)).percentile(metric.percent)
        run = Round(self.record)
        throttled = run.throttled()
        return {
            "availability_pct": 100 * float(np.mean(self.right[of_request])) if of_request.any() else None,
            "cpu_s_per_transaction": self.cpu_s,
            "memory_bytes": self.memory_bytes,
            "throttled_pct": None if throttled is None else 100 * throttled,
            "of_memory_limit": run.of_memory_limit(),
        }.get(key)

    def _is_of(self, request: str) -> NDArray[np.bool_]:
        """Return which rows are of this request of a mix."""
        if not request:
            return np.ones(len(self.rows), dtype=bool)
        sent = [index for index, one in enumerate(self.record.mix) if f"{one.method} {one.path}" == request]
        return np.isin(self.rows.request, sent)

    @property
    def cpus(self) -> float | None:
        """Return the average number of CPUs that the server kept busy, or None if unknown."""
        return Round(self.record).cpus_used()

    @property
    def refuses_while_idle(self) -> bool:
        """Return whether a goal was missed because the server refused requests although it had hardly anything to do.

        It then probably limits its connections or its requests.
        """
        shares, cpus = self.shares, self.cpus
        if not shares["refused"] or shares["refused"] < max(shares[name] for name in OUTCOMES) or cpus is None:
            return False
        lacks = (
            goal.figure == "availability_pct" or self.value(goal.figure, goal.request) == math.inf
            for goal in self.missed
        )
        return cpus < HARDLY_BUSY and any(lacks)

    @property
    def missed(self) -> list[Goal]:
        """Return the goals that this step missed, the one that was exceeded most first."""
        missed = {each: excesses[0] for each, excesses in self.excesses.items() if excesses[0] >= 0}
        return sorted(missed, key=lambda each: -missed[each])

    @cached_property
    def excesses(self) -> dict[Goal, Floats]:
        """Return, for each goal, the logarithm of the metric divided by its limit: as measured, and in each replicate.

        A replicate consists of blocks of requests (Künsch 1989). It is smoothed (Silverman and Young 1987), because a
        short step may contain none of the bursts that determine a high percentile. Unknown metrics miss their limits.
        """
        return {each: np.clip(self._log_excesses(each), -MOST_EXCESS, MOST_EXCESS) for each in self.goals}

    def _log_excesses(self, goal: Goal) -> Floats:
        metric, of_request = METRICS[goal.figure], self._is_of(goal.request)
        if goal.request and not of_request.any():  # a short step may not have sent a rare request of the mix
            return np.full(1 + REPLICATES, -math.inf)
        if metric.percent:
            due_s, values = self.samples[metric.latency]
            if goal.request:
                due_s, values = due_s[of_request], values[of_request]
            logs = self._resampled(due_s, values / goal.limit, metric.percent / 100)
            if (measured_s := self.value(goal.figure, goal.request)) is not None:
                logs[0] = math.log(measured_s / goal.limit)  # what is shown decides whether the goal is met
            return logs
        if goal.figure == "availability_pct":
            values = np.where(self.right, SHORTEST_S, np.inf)[of_request]
            return self._resampled(self.rows.due_s[of_request], values, goal.limit / 100)
        value = self.value(goal.figure)
        return np.full(1 + REPLICATES, math.inf if value is None else math.log(max(value, SHORTEST_S) / goal.limit))

    def _resampled(self, due_s: Floats, values: Floats, share: float) -> Floats:
        """Return the logarithm of the percentile below which this share of the values lies, and its replicates."""
        if not len(values):
            return np.full(1 + REPLICATES, math.inf)
        order, blocks = np.argsort(values), np.floor(np.maximum(due_s, 0.0) / BLOCK_S).astype(int)
        values = values[order]
        block_of = blocks[order]
        count = int(blocks.max()) + 1
        random = np.random.default_rng([self.record.round, len(values)])
        drawn = random.multinomial(count, np.full(count, 1 / count), REPLICATES)
        sums = (weights[block_of].cumsum() for weights in (np.ones(count, dtype=int), *drawn))
        places = [min(int(counts.searchsorted(share * counts[-1] - 1e-9)), len(values) - 1) for counts in sums]
        logs = np.clip(np.log(values[places]), -MOST_EXCESS, MOST_EXCESS)
        deviation = SMOOTHING / math.sqrt(max(FEWEST_BEYOND, len(values) * (1 - share)))
        logs[1:] += random.normal(0.0, deviation, REPLICATES)
        return np.asarray(logs)

    @property
    def answered_per_s(self) -> float:
        """Return the rate of correct responses, without the first quarter of the step."""
        ended_s, until_s = self.rows.ended_s[self.right], self.step.seen_until_s
        return float(np.sum(ended_s > until_s / 4)) / (0.75 * until_s) if until_s > 0 else 0.0

    @property
    def good_per_s(self) -> float:
        """Return the goodput: the offered rate times the share of correct responses within the latency limit."""
        return self.per_s * float(np.mean(self.right & (self.waits_s <= self.in_time_s)))

    @cached_property
    def speed(self) -> float | None:
        """Return the speed of the CPUs if the task is CPU-bound, or None if it is unknown or has no effect."""
        idle_s, speeds = self.record.idle_answer_s, speeds_of(self.record)
        is_cpu_bound = bool(self.cpu_s and idle_s and self.cpu_s > CPU_BOUND * idle_s)
        return speeds.mean(0.0, max(0.1, self.step.seen_until_s)) if speeds and is_cpu_bound else None


def _at_least(values_s: Floats) -> Floats:
    return np.maximum(values_s, SHORTEST_S)
