"""Build timelines that show when each traced request ran, how many tasks ran in parallel, and which pings waited."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from under_siege.record.record import Trace
from under_siege.show.case_names import CaseNames, labels

NOT_REPORTED = "the server doesn't report when its tasks ran"
CPUS_FOR_TWO_TASKS = 1.5  # if fewer CPUs are available, two parallel tasks seem to run one at a time
PARALLEL_TASKS = 1.2  # tasks ran in parallel if more than this number ran at once on average; less can be a clock error
IO_BOUND_CPUS = 0.1  # if the tasks together use fewer CPUs, each counts as running from its start to its end
COMPUTING_CPUS = 0.7  # if tasks used fewer CPUs, they were waiting, or other programs used the CPUs
STUCK_PING = 0.25  # share of the trace's duration; if 10 % of the pings take longer, pings wait for tasks
LATE_RESPONSE = 0.2  # share of the trace's duration; a response that was ready for longer was delayed
IDLE_CPUS = 0.05  # if tasks used more CPUs, other programs may have caused their pauses
QUEUED_PAUSE = 0.5  # share of a pause; if other tasks of the process ran for longer, the task was queued
INVISIBLE_PAUSE_S = 0.001


def other_work(trace: Trace) -> float | None:
    """Return the share of all CPUs that other programs used (including steal time), or None if it is unknown."""
    machine = trace.machine
    server_s = trace.server_cpu_s
    bench_s = trace.bench_cpu_s
    if machine is None or server_s is None or bench_s is None or machine.total_s <= 0:
        return None
    return min(1.0, max(0.0, (machine.busy_s + machine.steal_s - server_s - bench_s) / machine.total_s))


def is_crowded(trace: Trace) -> bool:
    """Return whether the machine has several CPUs, but other programs left too few of them for two parallel tasks."""
    share, requests = other_work(trace), trace.requests
    if share is None or trace.machine is None or not requests.sent_s:
        return False
    cpus = round(trace.machine.total_s / max(1e-9, max(requests.answered_s) - min(requests.sent_s)))
    return cpus > 1 and cpus * (1 - share) < CPUS_FOR_TWO_TASKS


class TaskSpan(NamedTuple):
    """A period in which a task ran, in seconds since the first request was sent."""

    from_s: float
    to_s: float
    share: float | None  # CPU time as a share of the period; None if the server doesn't report it

    @property
    def cpu_share(self) -> float:
        return 1.0 if self.share is None else self.share


class Bar(NamedTuple):
    """A traced request; requests are numbered in the order in which their tasks started."""

    number: int
    sent_s: float
    answered_s: float
    spans: tuple[TaskSpan, ...]  # empty if the server doesn't report them
    events_s: tuple[float, ...] = ()  # the arrivals of the events of a stream
    io_waits: tuple[tuple[float, float], ...] = ()  # periods in which its task waited for something other than a CPU

    def cpu_share_between(self, from_s: float, to_s: float) -> float:
        overlaps = (span.cpu_share * max(0.0, min(to_s, span.to_s) - max(from_s, span.from_s)) for span in self.spans)
        return sum(overlaps) / (to_s - from_s)

    @property
    def done_s(self) -> float | None:
        return min(self.spans[-1].to_s, self.answered_s) if self.spans else None

    @property
    def late_s(self) -> float:
        """Return the time from the end of the task to the response, or 0 if the end is unknown."""
        return 0.0 if self.done_s is None else self.answered_s - self.done_s

    @property
    def duration_s(self) -> float:
        return self.spans[-1].to_s - self.spans[0].from_s

    @property
    def cpu_s(self) -> float:
        return sum(span.cpu_share * (span.to_s - span.from_s) for span in self.spans)


class Lane(NamedTuple):
    worker: str
    bars: tuple[Bar, ...]

    @property
    def process(self) -> str:
        """Return a key that workers share if they are threads of the same process, and so can block each other."""
        process = self.worker.partition("/")[0]
        return "" if process.startswith("thread") else process


class PingSpan(NamedTuple):
    due_s: float
    waited_s: float  # time between `due_s` and the response


class TimelinePattern(NamedTuple):
    """The properties that all timelines in a group share."""

    is_parallel: bool | None = None  # None if unknown
    is_stuck: bool = False  # whether pings waited for tasks
    is_failed: bool = False
    is_crowded: bool = False  # whether `is_parallel` is unknown because other programs used the CPUs


class Timeline(NamedTuple):
    """The trace of one strategy."""

    server: str
    settings: tuple[str, ...]  # values that differ between the traces of a result, such as the task
    title: str
    lanes: tuple[Lane, ...] = ()
    pings: tuple[PingSpan, ...] = ()
    failure: str = ""
    other_work: float | None = None  # share of CPUs that other programs used; `None` if enough were left for two tasks

    @property
    def name(self) -> str:
        return " · ".join([self.server, *self.settings])

    @property
    def bars(self) -> list[Bar]:
        return [bar for lane in self.lanes for bar in lane.bars]

    @property
    def done_s(self) -> float:
        return max((bar.answered_s for bar in self.bars), default=0.0)

    @property
    def longest_ping_s(self) -> float:
        return max((ping.waited_s for ping in self.pings), default=0.0)

    @property
    def is_unreported(self) -> bool:
        return any(not bar.spans for bar in self.bars)

    @property
    def parallelism(self) -> int | None:
        """Return the average number of tasks that ran at the same time, rounded, but at least 2 if any ran in parallel.

        I/O-bound tasks count as running from start to end. Return None if the server doesn't report enough, or if
        tasks were waiting or other programs used the CPUs.
        """
        bars = self.bars
        if not bars or any(not bar.spans or any(span.share is None for span in bar.spans) for bar in bars):
            return None
        running, computing = _running(bars), sum(bar.cpu_s for bar in bars) / _duration_s(bars)
        if running <= PARALLEL_TASKS or (computing >= IO_BOUND_CPUS and len(self.lanes) == 1):
            return 1
        count = running if computing < IO_BOUND_CPUS else computing
        if count > PARALLEL_TASKS:
            return max(2, round(count))
        return 1 if computing >= COMPUTING_CPUS and self.other_work is None else None

    @property
    def pattern(self) -> TimelinePattern:
        if self.failure:
            return TimelinePattern(is_failed=True)
        if (count := self.parallelism) is None and self.other_work is not None:
            return TimelinePattern(is_crowded=True)
        waited_s = [ping.waited_s for ping in self.pings if 0 <= ping.due_s <= self.done_s]
        is_stuck = bool(waited_s) and float(np.percentile(waited_s, 90)) > STUCK_PING * self.done_s
        return TimelinePattern(None if count is None else count > 1, is_stuck)

    @property
    def takes_turns(self) -> bool:
        """Return whether tasks took turns: on average, clearly more tasks were in progress than ran in parallel."""
        return self.parallelism is not None and _running(self.bars) > 1.5 * self.parallelism

    @property
    def longest_late_s(self) -> float:
        """Return the longest time between the end of a task and its response, or 0 if that time is negligible."""
        late_s = max((bar.late_s for bar in self.bars), default=0.0)
        return late_s if late_s > LATE_RESPONSE * self.done_s else 0.0


def timelines(traces: Sequence[Trace]) -> list[Timeline]:
    axes, drawn = CaseNames(traces).axes, []
    for trace in traces:
        timeline = Timeline(trace.server, tuple(labels(trace.case, axes)), trace.title)
        if trace.failure is not None or not trace.requests.sent_s:
            failure = trace.failure.message if trace.failure else "no request was sent"
            drawn.append(timeline._replace(failure=failure))
            continue
        zero_s = min(trace.requests.sent_s)
        pairs = sorted(zip(trace.pings.due_s, trace.pings.ended_s, strict=True))
        pings = tuple(PingSpan(due_s - zero_s, ended_s - due_s) for due_s, ended_s in pairs)
        share = other_work(trace) if is_crowded(trace) else None
        drawn.append(timeline._replace(lanes=_lanes(trace, zero_s), pings=pings, other_work=share))
    return drawn


def _lanes(trace: Trace, zero_s: float) -> tuple[Lane, ...]:
    requests = trace.requests
    streams = requests.events_s or [[]] * len(requests.sent_s)
    columns = zip(requests.sent_s, requests.answered_s, requests.worker, requests.ran_s, streams, strict=True)
    by_start = sorted(columns, key=lambda request: request[3][0][0] if request[3] else request[1])
    bars: dict[str, list[Bar]] = {}
    for number, (sent_s, answered_s, worker, ran_s, arrived_s) in enumerate(by_start, 1):
        spans = []
        for from_s, to_s, cpu_s in ran_s:
            used = 1.0 if to_s <= from_s else min(1.0, (cpu_s or 0.0) / (to_s - from_s))
            spans.append(TaskSpan(from_s - zero_s, to_s - zero_s, None if cpu_s is None else used))
        events_s = tuple(at_s - zero_s for at_s in arrived_s)
        bars.setdefault(worker, []).append(Bar(number, sent_s - zero_s, answered_s - zero_s, tuple(spans), events_s))
    names = _lane_names(list(bars))
    if "" in bars and not any(bar.spans for bar in bars[""]):
        names[list(bars).index("")] = "requests"
    lanes = [Lane(name, tuple(lane)) for name, lane in zip(names, bars.values(), strict=True)]
    return tuple(lane._replace(bars=tuple(_with_io_waits(lane, lanes))) for lane in lanes)


def _lane_names(workers: Sequence[str]) -> list[str]:
    """Return a readable name for each worker, such as `process 1` for `4711/MainThread`."""
    processes = list(dict.fromkeys(worker.partition("/")[0] for worker in workers))
    if 1 < len(processes) < len(workers):
        return [f"{processes.index(worker.partition('/')[0]) + 1}/{worker.partition('/')[2]}" for worker in workers]
    kind = "interpreter" if all("Interpreter" in worker for worker in workers) else "thread"
    return [f"{kind if len(processes) == 1 else 'process'} {number}" for number in range(1, len(workers) + 1)]


def axis_end_s(drawn: Sequence[Timeline]) -> float:
    """Return the end of the common time axis: when the last response to a request or ping arrived."""
    pings_s = [ping.due_s + ping.waited_s for timeline in drawn for ping in timeline.pings]
    return max([0.001, *pings_s, *(timeline.done_s for timeline in drawn)])


def grouped(drawn: Sequence[Timeline]) -> list[tuple[TimelinePattern, list[Timeline]]]:
    """Group the timelines by pattern, and return the groups, the best pattern first."""
    groups: dict[TimelinePattern, list[Timeline]] = {}
    for timeline in drawn:
        groups.setdefault(timeline.pattern, []).append(timeline)
    order = (True, False, None).index
    return sorted(groups.items(), key=lambda pair: (*pair[0][2:], order(pair[0].is_parallel), pair[0].is_stuck))


def _running(bars: Sequence[Bar]) -> float:
    """Return the average number of tasks that were in progress, whether or not they used a CPU."""
    return sum(bar.duration_s for bar in bars) / _duration_s(bars)


def _duration_s(bars: Sequence[Bar]) -> float:
    """Return the time from the start of the first task to the end of the last one."""
    return max(1e-9, max(bar.spans[-1].to_s for bar in bars) - min(bar.spans[0].from_s for bar in bars))


def _with_io_waits(lane: Lane, lanes: Sequence[Lane]) -> Iterator[Bar]:
    bars = [bar for other in lanes if other.process == lane.process for bar in other.bars]
    is_known = all(bar.spans for bar in bars) and sum(bar.cpu_s for bar in bars) < IDLE_CPUS * _duration_s(bars)
    for bar in lane.bars:
        others = [(*span[:2], span.cpu_share) for each in bars if each is not bar for span in each.spans]
        waits = _io_waits_of(bar, np.array(others).reshape(-1, 3)) if is_known else ()
        yield bar._replace(io_waits=tuple(waits))


def _io_waits_of(bar: Bar, others: NDArray[np.float64]) -> Iterator[tuple[float, float]]:
    for span in bar.spans:
        is_idle = span.share is not None and span.share < IDLE_CPUS and span.to_s - span.from_s > INVISIBLE_PAUSE_S
        if is_idle and _overlap(others, span.from_s, span.to_s)[1] < IDLE_CPUS:
            yield span.from_s, span.to_s
    for before, after in pairwise(bar.spans):
        pause = before.to_s, after.from_s
        if pause[1] - pause[0] > INVISIBLE_PAUSE_S and _overlap(others, *pause)[0] < QUEUED_PAUSE:
            yield pause


def _overlap(spans: NDArray[np.float64], from_s: float, to_s: float) -> tuple[float, float]:
    """Return the average number of spans in a period, and the average number of CPUs that these spans used."""
    starts_s, ends_s, shares = spans.T
    inside = np.maximum(0.0, np.minimum(to_s, ends_s) - np.maximum(from_s, starts_s)) / (to_s - from_s)
    return float(inside.sum()), float((inside * shares).sum())
