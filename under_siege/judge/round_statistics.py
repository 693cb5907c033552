"""Compute the statistics of one round from its record and its ceiling."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from under_siege.judge.cpu_speed_over_time import Clock, Speeds, speeds_of
from under_siege.judge.estimators import (
    FEWEST_ANSWERS,
    NO_SPANS,
    UNSETTLED,
    Flags,
    Floats,
    Overload,
    Rows,
    Spans,
    SteadyRate,
    Waits,
    answered_s,
    availability,
    cycles_of,
    is_even,
    line_through,
    median_of,
    on_clock,
    overload,
    paced_rate,
    rate_of_arrivals,
    saturated_rate,
    single_spans,
    together,
    waits,
    waits_in_growing_queue,
)
from under_siege.judge.stream_statistics import StreamStatistics
from under_siege.judge.tool_totals import ToolTotals
from under_siege.record.case import Case, Value
from under_siege.record.record import Record
from under_siege.record.requests import CHECK, LOAD, LONE_PING, LOST, PING

# A rate computed from only the first and the last response ignores the start of the siege (the share UNSETTLED), and
# requires at least MANY_ANSWERS responses. With fewer, a burst of responses at the start, for example after a CPU quota
# was used up, would distort the rate.
MANY_ANSWERS = 50
MOSTLY_THROTTLED = 0.5  # share of periods; if a server uses up its quota less often, the machine may be the limit


MUCH_LONGER = 1.25  # a siege that is longer than another one by this factor may have a rate although that has none


class Round:
    """A record, and the ceiling of the same or the nearest round (None if no ceiling was measured)."""

    def __init__(self, record: Record, ceilings: Sequence[Round] = ()) -> None:
        self.record = record
        self.case = record.case
        self.load_s = record.load_s or 0.0
        self.too_short_s = 0.0  # length of the longest siege of the same case that was too short for a rate
        nearest = min(
            ceilings, key=lambda run: (run.rate.per_s is None, abs(run.record.round - record.round)), default=None
        )
        self.ceiling = self if record.is_ceiling else nearest
        self.rows = Rows.of(record.requests, LOAD)
        self.streams = StreamStatistics(self.rows, self.load_s) if record.stream else None
        self.totals = ToolTotals(record)  # used instead of rows if the tool reports only totals
        counted = availability(self.rows, record.unlisted_losses)
        self.attempts = counted.counted + self.totals.attempts
        self.completed = counted.correct + self.totals.completed  # in totals, a response with a good status is correct

    @property
    def lost(self) -> int:
        """Return how many requests got no response, or an incomplete one."""
        return (
            int((self.rows.outcome == LOST).sum()) + self.record.unlisted_losses + sum(self.totals.columns.unanswered)
        )

    @cached_property
    def cycles(self) -> Spans:
        """Return each request of a closed loop with the time since the user's previous one, including its pause."""
        # An infinite step: don't subtract pauses.
        return cycles_of(self.rows, math.inf if self.record.is_paced else self.record.tool_step_s)

    @cached_property
    def spans(self) -> Spans:
        """Return the requests that the users sent, except those that the end of the load cut off."""
        return single_spans(self.rows[~self.rows.is_open]) if self.record.is_paced else self.cycles

    @cached_property
    def check_rows(self) -> Rows:
        """Return the requests that the bench itself sent to check responses."""
        return Rows.of(self.record.requests, CHECK)

    @cached_property
    def checks(self) -> Spans:
        return single_spans(self.check_rows[~self.check_rows.is_open])

    @property
    def rate(self) -> SteadyRate:
        """Return the rate over the steady part, unless another siege of the case was about as long, but too short.

        Such a siege had some requests that took much longer than most. Leaving it out would make the mean rate of the
        case too high, because the sieges with a rate are those without such requests.
        """
        if self.own_rate.per_s is None or self.load_s >= MUCH_LONGER * self.too_short_s:
            return self.own_rate
        why = f"another siege of {self.too_short_s:.1f} s was too short to estimate the rate; use a longer --time"
        return SteadyRate(None, 0.0, too_short=why)

    @cached_property
    def own_rate(self) -> SteadyRate:
        """Return the rate that this siege alone shows.

        Without pauses, it includes responses to the bench's own requests, because they take work from the load. The
        rate of streams is that of their events.
        """
        if self.record.failure is not None:
            return SteadyRate(None, 0.0, too_short="it failed")
        if self.streams:
            return self.streams.rate
        if self.totals:
            return self.totals.rate(NO_SPANS if self.record.is_paced else self.checks)
        return self._rate(self.cycles, self.checks, self.rows, self.load_s)

    def _rate(self, cycles: Spans, checks: Spans, rows: Rows, end_s: float) -> SteadyRate:
        if self.record.is_open:
            return rate_of_arrivals(rows, end_s)
        if self.record.is_paced:
            return paced_rate(rows, end_s)
        # Users who never got a response don't count: they are not served, which `littles_law` reports.
        is_served = np.isin(rows.user, rows.user[~rows.is_open])
        return saturated_rate(cycles, self.record.users, end_s, checks, rows.sent_s[rows.is_open & is_served])

    def rate_on(self, clock: Clock) -> float | None:
        """Return the rate in responses per second of another clock, for example one that slows down with the CPUs."""
        if not self.rate.per_s:
            return None
        if self.totals:
            ends = self.totals.began_s + self.totals.took_s
            return float(self.rate.per_s * self.totals.took_s.sum() / (clock(ends) - clock(self.totals.began_s)).sum())
        if self.streams:
            edges_s = clock(np.array([self.rate.from_s, self.load_s]))
            return float(self.rate.per_s * (self.load_s - self.rate.from_s) / (edges_s[1] - edges_s[0]))
        spans = on_clock(self.cycles, clock)
        checks = on_clock(self.checks, clock)
        end = clock(np.array([self.load_s]))
        rows = replace(
            self.rows, sent_s=clock(self.rows.sent_s), ended_s=clock(self.rows.ended_s), due_s=clock(self.rows.due_s)
        )
        rate = self._rate(spans, checks, rows, float(end[0]))
        answers = answered_s(spans, checks)
        answers = answers[(answers >= UNSETTLED * end[0]) & (answers <= end[0])]
        # The noise is a random walk, so the first and the last response give a more accurate rate than a fitted line.
        if rate.evenly and len(answers) >= MANY_ANSWERS and is_even(answers):
            return float((len(answers) - 1) / (answers[-1] - answers[0]))
        return rate.per_s

    @cached_property
    def steady_s(self) -> Floats:
        """Return the durations of the requests that were answered correctly in the steady part."""
        return self.spans.duration_s[self._steady]

    def steady_at_most_s(self) -> Floats:
        """Return an upper bound for each duration in `steady_s`, because the tool rounds durations down."""
        ended_s = self.spans.ended_s[self._steady]
        longest: dict[float, float] = {}
        for ended, took in zip(
            self.rows.ended_s.tolist(), (self.rows.ended_s - self.rows.sent_s).tolist(), strict=True
        ):
            longest[ended] = max(took, longest.get(ended, 0.0))
        by_tool = np.array([longest[ended] + self.record.tool_step_s for ended in ended_s.tolist()])
        return np.maximum(self.steady_s, by_tool) if len(by_tool) else by_tool

    @cached_property
    def _steady(self) -> Flags:
        return self.spans.good & (self.spans.ended_s >= self.rate.from_s)

    @cached_property
    def speeds(self) -> Speeds | None:
        return speeds_of(self.record)

    @cached_property
    def speed(self) -> float | None:
        """Return the machine's mean speed in the steady part, in units of the speed probe, weighted like the rate."""
        if self.speeds is None:
            return None
        answers = answered_s(self.spans, self.checks)
        answers = answers[slice(answers.searchsorted(self.rate.from_s), answers.searchsorted(self.load_s, "right"))]
        if self.rate.evenly and len(answers) > FEWEST_ANSWERS and answers[-1] > answers[0]:
            return line_through(answers, self.speeds.clock()(answers))[0]
        return self.speeds.mean(self.rate.from_s, self.load_s)

    @cached_property
    def lowest_and_highest(self) -> tuple[float, float] | None:
        """Return the lowest and highest of these speeds: the mean, and those in each half second of the steady part."""
        if self.speeds is None or self.speed is None:
            return None
        speeds = np.append(self.speeds.moments(self.rate.from_s, self.load_s), self.speed)
        return float(speeds.min()), float(speeds.max())

    @cached_property
    def load_beside(self) -> float:
        """Return the mean utilization of the other CPUs while one CPU is busy in the steady part, or 0 if unknown."""
        return self.speeds.load_beside(self.rate.from_s, self.load_s) if self.speeds is not None else 0.0

    @cached_property
    def overload(self) -> Overload | None:
        """Return by how much arrivals exceeded what the server can do, or None if it kept up."""
        return overload(self.rows, self.load_s) if self.record.is_open else None

    @cached_property
    def responses(self) -> Waits:
        """Return how long requests waited, except each user's first request, because the queue is not yet full.

        If users pause, or requests arrive at a given rate, these first requests are not different from others.
        """
        if self.record.is_paced:
            return self.waits_of(self.rows)
        ended = self.rows[~self.rows.is_open]
        in_order = ended[np.lexsort((ended.ended_s, ended.user))]
        later = replace(in_order, due_s=self.cycles.began_s)[~self.cycles.first]
        return together([waits(later), waits(self.rows[self.rows.is_open])])

    def waits_of(self, rows: Rows) -> Waits:
        """Return how long some of the requests waited."""
        return waits_in_growing_queue(rows) if self.overload else waits(rows)

    def response_s(self, percent: float) -> float | None:
        """Return a percentile of the response times."""
        return self.totals.percentile(percent) if self.totals else self.responses.percentile(percent)

    @cached_property
    def ping_rows(self) -> Rows:
        return Rows.of(self.record.requests, PING)

    @cached_property
    def pings(self) -> Waits:
        """Return the latencies of all pings."""
        return waits(self.ping_rows)

    @cached_property
    def lone_pings(self) -> Waits:
        """Return the latencies of the pings that were sent in a pause of the others."""
        return waits(Rows.of(self.record.requests, LONE_PING))

    @cached_property
    def halves_of_pings(self) -> list[Waits]:
        """Return the pings due in the first half of the siege, and those due in the second half."""
        first = self.ping_rows.due_s < self.load_s / 2
        return [waits(self.ping_rows[part]) for part in (first, ~first)]

    def server_cpu_s(self) -> float | None:
        """Return the CPU seconds that the server's processes used during the siege, or None if unknown."""
        at_s, used_s = self._used
        if len(used_s) < 2 or at_s[-1] <= at_s[0]:
            return None
        return float((used_s[-1] - used_s[0]) / (at_s[-1] - at_s[0]) * (self.load_s or at_s[-1] - at_s[0]))

    def cpus_used(self) -> float | None:
        """Return the average number of CPUs that the server kept busy, or None if unknown."""
        used_s = self.server_cpu_s()
        return None if used_s is None or not self.load_s else used_s / self.load_s

    def cpu_wanted(self) -> float | None:
        """Return the average number of CPUs that the server's threads ran on or waited for, or None if unknown."""
        waited_s, used = np.asarray(self.record.samples.waited_s), self.cpus_used()
        if len(waited_s) < 2 or used is None:
            return None
        at_s = self.record.samples.at_s
        more_s = np.diff(waited_s)  # negative if a process has ended
        return used + float(more_s[more_s > 0].sum()) / (at_s[-1] - at_s[0])

    @cached_property
    def _used(self) -> tuple[Floats, Floats]:
        """Return the times and cumulative CPU times of all samples, except those that omit an ended process."""
        at_s, used_s = np.asarray(self.record.samples.at_s), np.asarray(self.record.samples.cpu_s)
        grown = used_s >= np.maximum.accumulate(used_s) if len(used_s) else np.empty(0, dtype=bool)
        return at_s[grown], used_s[grown]

    def cpu_s_per_transaction(self) -> float | None:
        """Return the CPU seconds that the server used per transaction in the steady part, or None if unknown."""
        at_s, used_s = self._used
        if not self.rate.per_s or len(at_s) < 2 or not self.load_s:
            return None
        if self.totals:  # the server is idle between the bursts
            return float(used_s[-1] - used_s[0]) / (self.completed + int(self.checks.good.sum()))
        from_s, to_s = max(self.rate.from_s, at_s[0]), min(self.load_s, at_s[-1])
        if to_s <= from_s:
            return None
        before, after = np.interp([from_s, to_s], at_s, used_s)
        checks = np.count_nonzero(self.checks.good & (self.checks.ended_s < to_s)) if self.record.is_paced else 0
        return float(after - before) / float((to_s - from_s) * self.rate.per_s + checks)

    @property
    def quota(self) -> float | None:
        """Return the CPU quota of the server, in CPUs, or None if it has none."""
        return self.record.limits.cpus if self.record.limits else None

    @property
    def quota_of_the_bench(self) -> float | None:
        """Return the CPU quota that the bench and the server share, in CPUs, or None if there is none."""
        return self.quota if self.record.limits and self.record.limits.is_shared else None

    def throttled(self) -> float | None:
        """Return the share of the quota's periods in which the quota was used up, or None without a quota."""
        limits = self.record.limits
        if limits is None or limits.cpus is None:
            return None
        return limits.throttled_periods / limits.periods if limits.periods else 0.0

    def is_limited_by_its_quota(self) -> bool:
        """Return whether the quota, not the machine, determined how much CPU time the server got."""
        return (self.throttled() or 0.0) >= MOSTLY_THROTTLED

    def of_memory_limit(self) -> float | None:
        """Return the peak memory of the server's cgroup as a share of its limit, or None if unknown."""
        limits = self.record.limits
        return (
            limits.peak_memory_bytes / limits.memory_bytes
            if limits and limits.memory_bytes and limits.peak_memory_bytes
            else None
        )

    def memory_bytes(self) -> int | None:
        """Return the peak memory of the server during the siege, or None if unknown."""
        return max(self.record.samples.memory_bytes, default=None)


LEAST_SAMPLES = 8  # of the memory in a siege
LEAST_GROWTH = 0.05  # share of the memory by which it grows in three quarters of a siege, if it leaks
STEADY_GROWTH = 0.75  # minimum growth in a quarter of a siege, relative to the mean of three quarters, if memory leaks


def leak_bytes(rounds: Sequence[Round]) -> float | None:
    """Return by how many bytes memory grows with each request, or None if it does not grow steadily in every round.

    The memory of most servers grows at the beginning and then settles, or grows in steps. A leak makes it grow by a
    similar amount in each of the last three quarters of the requests of every siege.
    """
    growths = [_leak_bytes(run) for run in rounds]
    known = [growth for growth in growths if growth is not None]
    return float(np.median(known)) if known and len(known) == len(growths) else None


def _leak_bytes(run: Round) -> float | None:
    samples = run.record.samples
    if len(samples.memory_bytes) < LEAST_SAMPLES or not run.completed or run.record.failure:
        return None
    finished_s = run.spans.ended_s if len(run.spans.ended_s) else [0.0, run.load_s]  # a tool may report only totals
    quarters_s = np.quantile(finished_s, [0.25, 0.5, 0.75, 1.0])
    at_quarters = np.interp(quarters_s, samples.at_s[: len(samples.memory_bytes)], samples.memory_bytes)
    growth = np.diff(at_quarters)
    is_steady = growth.min() >= STEADY_GROWTH * growth.mean()
    is_much = growth.sum() >= LEAST_GROWTH * at_quarters[0]
    return float(growth.sum()) / (run.completed * 0.75) if is_steady and is_much else None


def cases_of(records: Iterable[Record]) -> Iterator[list[Round]]:
    """Yield the rounds of each case and of each ceiling, ordered by load, work and server number."""
    ordered = sorted(((record.case, record) for record in records), key=lambda pair: (_order(*pair), pair[1].round))
    ceilings = {id(record): Round(record) for _, record in ordered if record.is_ceiling}
    cases: dict[Case, list[Round]] = {}
    for case, record in ordered:
        above = [ceiling for ceiling in ceilings.values() if ceiling.case.covers(case)]
        cases.setdefault(case, []).append(ceilings.get(id(record)) or Round(record, above))
    for rounds in cases.values():
        short_s = [run.load_s for run in rounds if run.own_rate.per_s is None and not run.record.failure]
        for run in rounds:
            run.too_short_s = max(short_s, default=0.0)
    yield from cases.values()


def _order(case: Case, record: Record) -> tuple[object, ...]:
    """Return a sort key: first the load and the work, then the ceiling before the servers, then the server number."""

    def sortable(pairs: Iterable[tuple[str, Value]]) -> list[tuple[str, float, str]]:
        return [(name, value, "") if isinstance(value, int) else (name, 0, value) for name, value in pairs]

    place = -1 if record.is_ceiling else case.sort_key[0]
    first = (*case.load, *(pair for pair in case.work if pair not in case.load))
    return sortable(first), place, record.server, sortable(pair for pair in case.values if pair not in first)


def alone_wall_s(rounds: Sequence[Round]) -> float | None:
    """Return the median duration of the task when it runs alone, before and after the sieges of these rounds.

    If the task can't run without a server, return the median response time of the idle servers.
    """
    runs = [wall_s for run in rounds for wall_s in run.record.alone_wall_s]
    firsts = [run.record.idle_answer_s for run in rounds if not run.record.has_task and not run.record.is_ceiling]
    return median_of(runs or firsts)
