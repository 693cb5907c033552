"""The timelines of traces: which request was where when, and what they show: tasks at once, and stuck pings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from under_siege import formatting
from under_siege.model.case import Value, axis
from under_siege.model.record import Trace

UNTOLD = "it doesn't tell when it computes"
ROOM_FOR_TWO = 1.5  # CPUs: with fewer, two tasks at once look much like one at a time
MORE_THAN_ONE = 1.2  # on average: with less, one thread computed, and what is above 1 is how exact the clocks are
WAITS = 0.1  # a task that computes less of the time waits, and at once is then what was begun and not yet done
BUSY = 0.7  # with less of a core, one at a time is not the reason: the task waits in between, or others had the cores
STUCK = 0.25  # of the time until all was done: a ping that waits longer waits for the tasks
LATE = 0.2  # of that time: so long is a computed answer on its way only if something is in it
HARDLY = 0.05  # of a core: with tasks that compute more, one that pauses may just be kept from it by other programs
OTHERS = 0.5  # of a pause: if others of the same process ran for so much of it, it waited for its turn
SHORT_S = 0.001  # such a pause nobody can see


def other_work(trace: Trace) -> float | None:
    """Return the share of all CPUs that neither the server nor the bench got; None if unknown."""
    machine, server_s, bench_s = trace.machine, trace.server_cpu_s, trace.bench_cpu_s
    if machine is None or server_s is None or bench_s is None or machine.total_s <= 0:
        return None
    return min(1.0, max(0.0, (machine.busy_s + machine.steal_s - server_s - bench_s) / machine.total_s))


def is_crowded(trace: Trace) -> bool:
    """Return whether other work left so little of several CPUs that two tasks could not run in parallel."""
    share, requests = other_work(trace), trace.requests
    lasted_s = max(requests.answered_s, default=0.0) - min(requests.sent_s, default=0.0)
    if share is None or trace.machine is None or lasted_s <= 0:
        return False
    cpus = round(trace.machine.total_s / lasted_s)
    return cpus > 1 and cpus * (1 - share) < ROOM_FOR_TWO


@dataclass(frozen=True, slots=True)
class Ran:
    """A stretch in which a task ran, in seconds since the requests were sent, and the share of it that it computed."""

    from_s: float
    to_s: float
    share: float | None  # None where the server doesn't tell

    @property
    def computing(self) -> float:
        """Return the share; all of it if that is unknown."""
        return 1.0 if self.share is None else self.share


@dataclass(frozen=True, slots=True)
class Bar:
    """A request: numbered in the order in which they got their turn."""

    number: int
    sent_s: float
    answered_s: float
    ran: tuple[Ran, ...]  # none where the server doesn't tell

    def share_between(self, from_s: float, to_s: float) -> float:
        """How much of the time between the two it computed; where that isn't known, as if always while it ran."""
        inside = (ran.computing * max(0.0, min(to_s, ran.to_s) - max(from_s, ran.from_s)) for ran in self.ran)
        return sum(inside) / (to_s - from_s)

    @property
    def done_s(self) -> float | None:
        return min(self.ran[-1].to_s, self.answered_s) if self.ran else None

    @property
    def late_s(self) -> float | None:
        """How long it was computed and not yet answered."""
        return None if self.done_s is None else self.answered_s - self.done_s


@dataclass(frozen=True, slots=True)
class Lane:
    """A worker and the requests that it had."""

    worker: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class PingSpan:
    """Due when, answered when."""

    due_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Timeline:
    """One strategy."""

    name: str  # of its file, and what it was traced with where that differs
    title: str
    lanes: tuple[Lane, ...]
    pings: tuple[PingSpan, ...]
    failure: str = ""
    other_work: float | None = None  # the share of the CPUs that it had, if so much that nothing ran in parallel

    @property
    def done_s(self) -> float:
        return max((bar.answered_s for lane in self.lanes for bar in lane.bars), default=0.0)

    @property
    def requests(self) -> int:
        return sum(len(lane.bars) for lane in self.lanes)

    @property
    def longest_ping_s(self) -> float:
        return max((ping.until_s - ping.due_s for ping in self.pings), default=0.0)

    @property
    def is_untold(self) -> bool:
        """Whether nobody knows of a request when it waited and when it was computed."""
        return any(not bar.ran for lane in self.lanes for bar in lane.bars)

    def described(self) -> str:
        if self.failure:
            return f"{self.name}: failed, {self.failure}"
        count = self.requests
        where = "" if self.is_untold else f" on {len(self.lanes)} worker{'s'[: len(self.lanes) != 1]}"
        untold = f", but {UNTOLD}" if self.is_untold else ""
        return (
            f"{self.name}: {count} requests{where} done after {formatting.seconds(self.done_s)}{untold}; "
            f"a ping waited {formatting.seconds(self.longest_ping_s)} at the most"
        )


def timelines(traces: Sequence[Trace]) -> list[Timeline]:
    """A timeline for each trace; what it was traced with is in its name where that differs."""
    seen: dict[str, set[Value]] = {}
    for name, value in (pair for trace in traces for pair in trace.case.values):
        seen.setdefault(name, set()).add(value)
    told = [[axis(name).label(value) for name, value in one.case.values if len(seen[name]) > 1] for one in traces]
    return [_timeline(trace, differing) for trace, differing in zip(traces, told, strict=True)]


def end_s(drawn: Sequence[Timeline]) -> float:
    """Return when the last answer of all of them came: they share one axis, so that the eye compares."""
    return max([0.001, *(ping.until_s for one in drawn for ping in one.pings), *(one.done_s for one in drawn)])


def _timeline(trace: Trace, differing: Sequence[str]) -> Timeline:
    name = " · ".join([trace.server, *differing])
    if trace.failure is not None or not trace.requests.sent_s:
        said = trace.failure.message if trace.failure else "no request was sent"
        return Timeline(name, trace.title, (), (), said)
    zero_s = min(trace.requests.sent_s)
    pings = zip(trace.pings.due_s, trace.pings.waited_s, strict=True)
    drawn = tuple(PingSpan(due_s - zero_s, due_s - zero_s + waited_s) for due_s, waited_s in sorted(pings))
    share = other_work(trace) if is_crowded(trace) else None
    return Timeline(name, trace.title, tuple(_lanes(trace, zero_s)), drawn, other_work=share)


def _lanes(trace: Trace, zero_s: float) -> list[Lane]:
    requests = trace.requests
    columns = zip(requests.sent_s, requests.answered_s, requests.worker, requests.ran_s, strict=True)
    in_turn = sorted(columns, key=lambda request: request[3][0][0] if request[3] else request[1])
    bars: dict[str, list[Bar]] = {}
    for number, (sent_s, answered_s, worker, ran_s) in enumerate(in_turn, 1):
        ran = tuple(Ran(since - zero_s, to - zero_s, _share(since, to, cpu_s)) for since, to, cpu_s in ran_s)
        bars.setdefault(worker, []).append(Bar(number, sent_s - zero_s, answered_s - zero_s, ran))
    names = _names(list(bars))
    if "" in bars and not any(bar.ran for bar in bars[""]):
        names[list(bars).index("")] = "requests"  # whoever had them
    return [Lane(name, tuple(lane)) for name, lane in zip(names, bars.values(), strict=True)]


def _share(from_s: float, to_s: float, cpu_s: float | None) -> float | None:
    if cpu_s is None:
        return None
    return min(1.0, cpu_s / (to_s - from_s)) if to_s > from_s else 1.0


def _names(workers: Sequence[str]) -> list[str]:
    """What workers are called in a picture: nobody knows process 4711."""
    processes = list(dict.fromkeys(worker.partition("/")[0] for worker in workers))
    if len(processes) == len(workers) > 1:
        return [f"process {number}" for number in range(1, len(workers) + 1)]
    kind = "interpreter" if all("Interpreter" in worker for worker in workers) else "thread"
    if len(processes) == 1:
        return [f"{kind} {number}" for number in range(1, len(workers) + 1)]
    return [f"{processes.index(worker.partition('/')[0]) + 1}/{worker.partition('/')[2]}" for worker in workers]


@dataclass(frozen=True, slots=True)
class Pattern:
    """What the timelines of a group have in common."""

    at_once: bool | None  # several tasks, or one at a time; None where nobody can tell, or it failed
    is_stuck: bool  # whether pings had to wait for tasks
    is_failed: bool = False
    is_crowded: bool = False  # whether other work on the machine is the reason why nobody can tell


ORDER = (
    Pattern(at_once=True, is_stuck=False),
    Pattern(at_once=True, is_stuck=True),
    Pattern(at_once=False, is_stuck=False),
    Pattern(at_once=False, is_stuck=True),
    Pattern(at_once=None, is_stuck=False),
    Pattern(at_once=None, is_stuck=True),
    Pattern(at_once=None, is_stuck=False, is_crowded=True),
    Pattern(at_once=None, is_stuck=False, is_failed=True),
)
CROWDED = ORDER[-2]


def pattern(one: Timeline) -> Pattern:
    """Which of them it is, from its requests and pings alone."""
    if one.failure:
        return ORDER[-1]
    count = at_once(one)
    if count is None and one.other_work is not None:
        return CROWDED
    return Pattern(None if count is None else count > 1, is_stuck(one))


def grouped(drawn: Sequence[Timeline]) -> list[tuple[Pattern, list[Timeline]]]:
    found = [(kind, [one for one in drawn if pattern(one) == kind]) for kind in ORDER]
    return [(kind, members) for kind, members in found if members]


def at_once(one: Timeline) -> int | None:
    """How many tasks were computed at the same time, on average, but 2 where it was more than one.

    Of tasks that hardly compute: how many were begun and not yet done. None where the server doesn't tell, or where
    the cores had so much else to do that nobody can.
    """
    bars = bars_of(one)
    if not bars or not all(bar.ran and all(ran.share is not None for ran in bar.ran) for bar in bars):
        return None
    begun, computed = (_on_average(bars, of_each) for of_each in (in_hand_s, computed_s))
    if begun <= MORE_THAN_ONE or (computed >= WAITS and len(one.lanes) == 1):
        return 1
    count = begun if computed < WAITS else computed
    if count > MORE_THAN_ONE:
        return max(2, round(count))
    return 1 if computed >= BUSY and one.other_work is None else None


def _on_average(bars: Sequence[Bar], of_each: Callable[[Bar], float]) -> float:
    """How many at the same time, from when the first task was begun until the last one was done."""
    lasted_s = max(bar.ran[-1].to_s for bar in bars) - min(bar.ran[0].from_s for bar in bars)
    return sum(map(of_each, bars)) / max(lasted_s, 1e-9)


def is_stuck(one: Timeline) -> bool:
    """Whether the slowest tenth of the pings that were due meanwhile waited as long as a stuck server lets them."""
    waited_s = [ping.until_s - ping.due_s for ping in one.pings if 0 <= ping.due_s <= one.done_s]
    return bool(waited_s) and float(np.percentile(waited_s, 90)) > STUCK * one.done_s


def take_turns(one: Timeline) -> bool:
    """Whether more tasks were begun at once than were computed at once."""
    bars, count = bars_of(one), at_once(one)
    if count is None:
        return False
    return _on_average(bars, in_hand_s) > 1.5 * count


def longest_late_s(one: Timeline) -> float:
    """How long the answer that was computed and not sent was kept back; 0 where that is not worth a word."""
    late_s = max((late for bar in bars_of(one) if (late := bar.late_s) is not None), default=0.0)
    return late_s if late_s > LATE * one.done_s else 0.0


def bars_of(one: Timeline) -> list[Bar]:
    return [bar for lane in one.lanes for bar in lane.bars]


def computed_s(bar: Bar) -> float:
    """How long it computed; as if always while it ran, where that isn't known."""
    return sum(ran.computing * (ran.to_s - ran.from_s) for ran in bar.ran)


def in_hand_s(bar: Bar) -> float:
    return bar.ran[-1].to_s - bar.ran[0].from_s if bar.ran else 0.0


def waits_elsewhere(lanes: Sequence[Lane]) -> dict[int, list[tuple[float, float]]]:
    """From when to when each request waits so, by its number.

    It has paused, or computed next to nothing, while none of the same process was in its way.
    """
    found: dict[int, list[tuple[float, float]]] = {}
    for lane in lanes:
        beside = [bar for other in lanes if _process(other) == _process(lane) for bar in other.bars]
        if not all(bar.ran for bar in beside) or sum(map(computed_s, beside)) >= HARDLY * _lasted_s(beside):
            continue
        for bar in lane.bars:
            found[bar.number] = list(_waits(bar, _Ran([one for one in beside if one is not bar])))
    return found


class _Ran:
    """What others of the process did."""

    def __init__(self, bars: Sequence[Bar]) -> None:
        rows = [(ran.from_s, ran.to_s, ran.computing) for bar in bars for ran in bar.ran]
        self._from_s, self._to_s, self._share = np.array(rows).reshape(-1, 3).T

    def between(self, from_s: float, to_s: float) -> tuple[float, float]:
        """For how much of that time they ran, and how much of it they computed, as fractions."""
        inside = np.maximum(0.0, np.minimum(to_s, self._to_s) - np.maximum(from_s, self._from_s)) / (to_s - from_s)
        return float(inside.sum()), float((inside * self._share).sum())


def _waits(bar: Bar, others: _Ran) -> Iterator[tuple[float, float]]:
    for ran in bar.ran:
        hardly = ran.share is not None and ran.share < HARDLY and ran.to_s - ran.from_s > SHORT_S
        if hardly and others.between(ran.from_s, ran.to_s)[1] < HARDLY:
            yield ran.from_s, ran.to_s
    for before, after in zip(bar.ran, bar.ran[1:], strict=False):
        if after.from_s - before.to_s > SHORT_S and others.between(before.to_s, after.from_s)[0] < OTHERS:
            yield before.to_s, after.from_s


def _lasted_s(bars: Sequence[Bar]) -> float:
    """From when the first task was begun until the last one was done."""
    return max(bar.ran[-1].to_s for bar in bars) - min(bar.ran[0].from_s for bar in bars)


def _process(lane: Lane) -> str:
    """Threads of one process have one lock and one loop; the others have nothing of each other."""
    kind = lane.worker.partition("/")[0]
    return "" if kind.startswith("thread") else kind
