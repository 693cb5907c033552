"""What a timeline shows: how many tasks were computed at once, and whether pings had to wait for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from under_siege.trace.timeline import Bar, Lane, Timeline

MORE_THAN_ONE = 1.2  # on average: with less, one thread computed, and what is above 1 is how exact the clocks are
WAITS = 0.1  # a task that computes less of the time waits, and at once is then what was begun and not yet done
BUSY = 0.7  # with less of a core, one at a time is not the reason: the task waits in between, or others had the cores
STUCK = 0.25  # of the time until all was done: a ping that waits longer waits for the tasks
LATE = 0.2  # of that time: so long is a computed answer on its way only if something is in it


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
    """The timelines by what they show, what helps everybody first."""
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
    """The requests, whoever had them."""
    return [bar for lane in one.lanes for bar in lane.bars]


def computed_s(bar: Bar) -> float:
    """How long it computed; as if always while it ran, where that isn't known."""
    return sum((1.0 if ran.share is None else ran.share) * (ran.to_s - ran.from_s) for ran in bar.ran)


def in_hand_s(bar: Bar) -> float:
    """From when its task was begun until it was done."""
    return bar.ran[-1].to_s - bar.ran[0].from_s if bar.ran else 0.0


HARDLY = 0.05  # of a core: with tasks that compute more, one that pauses may just be kept from it by other programs
OTHERS = 0.5  # of a pause: if others of the same process ran for so much of it, it waited for its turn
SHORT_S = 0.001  # such a pause nobody can see


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
        rows = [(ran.from_s, ran.to_s, 1.0 if ran.share is None else ran.share) for bar in bars for ran in bar.ran]
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
