"""Compute the statistics of one round from its record and the ceiling of the same round."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import NamedTuple

import numpy as np

from under_siege.model.case import Case, Value
from under_siege.model.record import Record
from under_siege.stats.cpu_speed import Clock, Speeds, speeds_of
from under_siege.stats.rate import (
    FEWEST_ANSWERS,
    Flags,
    Floats,
    Spans,
    SteadyRate,
    Totals,
    loose_spans,
    on_clock,
    rate_between,
    slope_between,
    spans_of,
    steady_rate,
)


@dataclass(frozen=True)
class CensoredSamples:
    """Waiting times in seconds; `answered` is false where the wait had not ended when it was last seen."""

    waited_s: Floats
    answered: Flags

    def percentile(self, percent: float) -> float | None:
        """Return the shortest wait that so many per cent don't exceed; None if it lies beyond what was seen."""
        times, share = self._distribution
        reached = int(share.searchsorted(percent / 100 - 1e-9))
        return float(times[reached]) if reached < len(times) else None

    def seen_up_to_s(self) -> float:
        """Return how far the distribution is known."""
        return float(self.waited_s.max()) if len(self.waited_s) else 0.0

    @cached_property
    def _distribution(self) -> tuple[Floats, Floats]:
        """The times in order, and the share of all waits that had ended by then; of those at one time answers first."""
        order = np.lexsort((~self.answered, self.waited_s))
        at_risk = np.arange(len(order), 0, -1)
        share = 1 - np.cumprod(1 - self.answered[order] / at_risk)
        return self.waited_s[order], np.asarray(share, dtype=np.float64)


def together(several: Sequence[CensoredSamples]) -> CensoredSamples:
    """Return all samples in one."""
    return CensoredSamples(
        np.concatenate([waits.waited_s for waits in several] or [np.empty(0)]),
        np.concatenate([waits.answered for waits in several] or [np.empty(0, dtype=bool)]),
    )


# Share of a siege that does not count; answers after which their end times determine the rate.
UNSETTLED, MANY_ANSWERS = 0.1, 10
BATCH_S, CYCLES_IN_A_BATCH, MOST_BATCHES = 1.0, 2.0, 8


class _Work(NamedTuple):
    """What the server did over the steady part."""

    cpu_s: float
    transactions: float


class Round:
    """One record, with its ceiling of the same round, or the nearest one (None if none was measured)."""

    def __init__(self, record: Record, ceilings: Sequence[Round] = ()) -> None:
        self.record = record
        self.case = record.case
        nearest = min(ceilings, key=lambda one: (one.rate.per_s is None, self._rounds_from(one)), default=None)
        self.ceiling = self if record.is_ceiling else nearest
        columns = record.transactions
        right = (np.asarray(columns.size_bytes, dtype=int) == record.answer_bytes) | (record.answer_bytes < 0)
        self.good: Flags = right & (np.asarray(columns.status, dtype=int) == record.answer_status)
        self.totals = Totals(record)  # instead of single answers, where the tool tells only those

    def _rounds_from(self, other: Round) -> int:
        return abs(other.record.round - self.record.round)

    @cached_property
    def spans(self) -> Spans:
        """The requests of the users."""
        columns = self.record.transactions
        return spans_of(columns.finished_s, columns.took_s, columns.user, self.good, self.record.tool_step_s)

    @cached_property
    def checks(self) -> Spans:
        """The harness's own requests for the task."""
        checks = self.record.checks
        return loose_spans(checks.sent_s, checks.answered_s, [not code for code in checks.code])

    @cached_property
    def rate(self) -> SteadyRate:
        """The rate over the steady part. The harness's own requests are work done, too. What failed has none."""
        if self.record.failure is not None:
            return SteadyRate(None, 0.0, too_short="it failed")
        if self.totals:
            return self.totals.rate(self.checks)
        return steady_rate(self.spans, self.record.users, self.record.load_s or 0.0, self.checks)

    def rate_on(self, clock: Clock) -> float | None:
        """Return the rate in seconds of another clock, such as one that goes slower where the CPUs do."""
        if self.record.failure is not None or not self.rate.per_s:
            return None
        if self.totals:
            ends = self.totals.began_s + self.totals.took_s
            return float(self.rate.per_s * self.totals.took_s.sum() / (clock(ends) - clock(self.totals.began_s)).sum())
        spans, checks, end = on_clock(self.spans, clock), on_clock(self.checks, clock), clock(np.array([self.load_s]))
        rate = steady_rate(spans, self.record.users, float(end[0]), checks)
        answers = np.sort(np.concatenate((spans.ended_s[spans.good], checks.ended_s[checks.good])))
        answers = answers[(answers >= UNSETTLED * end[0]) & (answers <= end[0])]
        # Noise adds up like a random walk, so the first and the last answer say more than a line through all of them.
        if rate.evenly and len(answers) >= MANY_ANSWERS:
            return float((len(answers) - 1) / (answers[-1] - answers[0]))
        return rate.per_s

    @property
    def load_s(self) -> float:
        """How long the siege lasted."""
        return self.record.load_s or 0.0

    @property
    def attempts(self) -> int:
        """Requests that ended in one way or another."""
        return len(self.good) + self.record.socket_failures + self.totals.attempts

    @cached_property
    def completed(self) -> int:
        """Right answers; of those that are only counted, the ones with a good status."""
        return int(self.good.sum()) + self.totals.completed

    @cached_property
    def steady_s(self) -> Floats:
        """How long the requests took whose right answers came in the steady part."""
        return self.spans.duration_s[self._steady]

    def steady_at_most_s(self) -> Floats:
        """Return how long each of them can have taken, given what the tool itself says, rounded down to its step."""
        columns, ended_s = self.record.transactions, self.spans.ended_s[self._steady]
        longest: dict[float, float] = {}
        for ended, took in zip(columns.finished_s, columns.took_s, strict=True):
            longest[ended] = max(took, longest.get(ended, 0.0))
        by_tool = np.array([longest[ended] + self.record.tool_step_s for ended in ended_s.tolist()])
        return np.maximum(self.steady_s, by_tool) if len(by_tool) else by_tool

    @cached_property
    def _steady(self) -> Flags:
        return self.spans.good & (self.spans.ended_s >= self.rate.from_s)

    @cached_property
    def speeds(self) -> Speeds | None:
        """How fast the machine was, where that was measured."""
        return speeds_of(self.record)

    @property
    def steady_part(self) -> tuple[float, float]:
        """From when to when the rate counts."""
        return self.rate.from_s, self.record.load_s or 0.0

    @cached_property
    def speed(self) -> float | None:
        """The machine's speed over the steady part, in units of the metronome."""
        return self.speed_between(*self.steady_part)

    def speed_between(self, from_s: float, to_s: float) -> float | None:
        """Return the machine's speed over a time, each moment weighted as for the rate."""
        if self.speeds is None:
            return None
        first, last = self._answered_s.searchsorted(from_s), self._answered_s.searchsorted(to_s, "right")
        if self.rate.evenly and last - first > FEWEST_ANSWERS and self._answered_s[last - 1] > self._answered_s[first]:
            return self.speeds.along(self._answered_s[first:last])
        return self.speeds.mean(from_s, to_s)

    @cached_property
    def lowest_and_highest(self) -> tuple[float, float] | None:
        """Of the speeds in the moments of the steady part; over all of a short one it may be beyond them."""
        if self.speeds is None or self.speed is None:
            return None
        speeds = np.append(self.speeds.moments(*self.steady_part), self.speed)
        return float(speeds.min()), float(speeds.max())

    @cached_property
    def load_beside(self) -> float:
        """How busy the other CPUs were over the steady part, beside one that worked; 0 where that isn't known."""
        return self.speeds.load_beside(*self.steady_part) if self.speeds is not None else 0.0

    @cached_property
    def speeds_of_batches(self) -> list[float]:
        """The machine's speed in each of `batches`; none where that isn't known."""
        speeds = [self.speed_between(from_s, to_s) for from_s, to_s, _ in self.batches]
        return [speed for speed in speeds if speed is not None]

    @cached_property
    def loads_of_batches(self) -> list[float]:
        """How busy the other CPUs were in each of them."""
        return [self.speeds.load_beside(from_s, to_s) for from_s, to_s, _ in self.batches] if self.speeds else []

    @cached_property
    def _answered_s(self) -> Floats:
        """When right answers came, those to the harness's own requests among them."""
        return np.sort(np.concatenate((self.spans.ended_s[self.spans.good], self.checks.ended_s[self.checks.good])))

    @cached_property
    def batches(self) -> list[tuple[float, float, float]]:
        """Parts of the steady part, from, to, and the rate: long enough to have one, short enough to differ."""
        if self.totals:
            return self.totals.batches(self.checks)
        if not self.rate.per_s or not len(self.steady_s):
            return []
        from_s, to_s = self.steady_part
        least_s = BATCH_S if self.rate.evenly else max(BATCH_S, CYCLES_IN_A_BATCH * float(self.steady_s.mean()))
        count = min(MOST_BATCHES, max(1, int((to_s - from_s) / least_s)))
        edges = np.linspace(from_s, to_s, count + 1).tolist()
        rates = [(start, end, self._rate_between(start, end)) for start, end in itertools.pairwise(edges)]
        return [(start, end, rate) for start, end, rate in rates if rate]

    def _rate_between(self, from_s: float, to_s: float) -> float | None:
        if not self.rate.evenly:
            return rate_between(self.spans, self.checks, from_s, to_s)
        return slope_between(self._answered_s, from_s, to_s)

    @cached_property
    def responses(self) -> CensoredSamples:
        """How long the users waited for right answers: for all but their first, which came before the line was full.

        What was still waiting at the end is not dropped, as siege does, but known in part.
        """
        spans, end_s = self.spans, self.record.load_s or 0.0
        never = self.record.users - int(spans.first.sum())
        in_flight_s = np.maximum(end_s - spans.ended_s[spans.last], 0.0)
        return CensoredSamples(
            np.concatenate((spans.duration_s[~spans.first], in_flight_s, np.full(max(0, never), end_s))),
            np.concatenate((spans.good[~spans.first], np.zeros(len(in_flight_s) + max(0, never), dtype=bool))),
        )

    def response_s(self, percent: float) -> float | None:
        """Return the wait that so many per cent of the users' requests don't exceed."""
        return self.totals.percentile(percent) if self.totals else self.responses.percentile(percent)

    @cached_property
    def pings(self) -> CensoredSamples:
        """How long pings waited for right answers; the others are known in part."""
        right = np.asarray([not problem for problem in self.record.pings.problem], dtype=bool)
        return CensoredSamples(np.asarray(self.record.pings.waited_s, dtype=float), right)

    @cached_property
    def halves_of_pings(self) -> list[CensoredSamples]:
        """Those that were due in the first half of the siege, and in the second."""
        first = np.asarray(self.record.pings.due_s) < (self.record.load_s or 0.0) / 2
        return [CensoredSamples(self.pings.waited_s[part], self.pings.answered[part]) for part in (first, ~first)]

    def server_cpu_s(self) -> float | None:
        """CPU seconds of the whole server while the siege was on."""
        at_s, used_s = self._used
        if len(used_s) < 2 or at_s[-1] <= at_s[0]:
            return None
        return float((used_s[-1] - used_s[0]) / (at_s[-1] - at_s[0]) * (self.record.load_s or at_s[-1] - at_s[0]))

    def cpus_used(self) -> float | None:
        """Return how many CPUs the server kept busy, on the average."""
        used_s = self.server_cpu_s()
        return None if used_s is None or not self.load_s else used_s / self.load_s

    def cpu_wanted(self) -> float | None:
        """Return how many CPUs the server's threads ran on or waited for, on the average; None where unknown."""
        waited_s, used = np.asarray(self.record.samples.waited_s), self.cpus_used()
        if len(waited_s) < 2 or used is None:
            return None
        at_s = self.record.samples.at_s
        more_s = np.diff(waited_s)  # less than before where a process has ended
        return used + float(more_s[more_s > 0].sum()) / (at_s[-1] - at_s[0])

    @cached_property
    def _used(self) -> tuple[Floats, Floats]:
        """When the CPU time was looked at, and what it was: without looks that lack a process that had just ended."""
        at_s, used_s = np.asarray(self.record.samples.at_s), np.asarray(self.record.samples.cpu_s)
        grown = used_s >= np.maximum.accumulate(used_s) if len(used_s) else np.empty(0, dtype=bool)
        return at_s[grown], used_s[grown]

    def cpu_s_per_transaction(self) -> float | None:
        """CPU seconds of the whole server over the steady part, for each transaction in it."""
        return self._work and self._work.cpu_s / self._work.transactions

    @cached_property
    def _work(self) -> _Work | None:
        (at_s, used_s), end_s = self._used, self.record.load_s
        if not self.rate.per_s or len(at_s) < 2 or end_s is None:
            return None
        if self.totals:  # between the bursts it has nothing to do
            return _Work(float(used_s[-1] - used_s[0]), self.completed + int(self.checks.good.sum()))
        from_s, to_s = max(self.rate.from_s, at_s[0]), min(end_s, at_s[-1])
        if to_s <= from_s:
            return None
        used = np.interp([from_s, to_s], at_s, used_s)
        return _Work(float(used[1] - used[0]), float((to_s - from_s) * self.rate.per_s))

    def memory_bytes(self) -> int | None:
        """Return the most memory that the server took while the siege was on."""
        return max(self.record.samples.memory_bytes, default=None)


def cases_of(records: Iterable[Record]) -> Iterator[tuple[Sequence[Round], bool]]:
    """Yield the rounds of each case, in the order of the servers' numbers, and whether it is a ceiling."""
    ordered = sorted(((one.case, one) for one in records), key=lambda pair: (_order(*pair), pair[1].round))
    ceilings = [Round(record) for _, record in ordered if record.is_ceiling]
    of_record = {id(one.record): one for one in ceilings}
    cases: dict[Case, list[Round]] = {}
    for case, record in ordered:
        above = [one for one in ceilings if one.case.covers(case)]
        cases.setdefault(case, []).append(of_record.get(id(record)) or Round(record, above))
    for rounds in cases.values():
        yield rounds, rounds[0].record.is_ceiling


def _order(case: Case, record: Record) -> tuple[object, ...]:
    """First what is asked for and what decides how long that takes, then the ceiling, then the numbers of servers."""
    number = record.server.rpartition("/")[2].split("_")[0]
    place = -1 if record.is_ceiling else int(number) if number.isdecimal() else 10**9
    first = (*case.load, *(pair for pair in case.work if pair not in case.load))
    rest = [pair for pair in case.values if pair not in first]
    return [*map(_sortable, first)], place, record.server, [*map(_sortable, rest)]


def _sortable(pair: tuple[str, Value]) -> tuple[str, float, str]:
    name, value = pair
    return (name, value, "") if isinstance(value, int) else (name, 0, value)


def alone_wall_s(rounds: Iterable[Round]) -> float | None:
    """Return the median of all runs that were made around these rounds.

    Where there is no task that could be performed without a server: the median of what the first answers took.
    """
    known = list(rounds)
    runs = [wall_s for one in known for wall_s in one.record.alone_wall_s]
    firsts = [one.record.idle_answer_s for one in known if not one.record.has_task and not one.record.is_ceiling]
    return _median(runs or [first_s for first_s in firsts if first_s is not None])


def alone_cpu_s(rounds: Iterable[Round]) -> float | None:
    """Return the CPU time of a run, the median of all."""
    return _median([cpu_s for one in rounds for cpu_s in one.record.alone_cpu_s])


def _median(values: list[float]) -> float | None:
    return median(values) if values else None
