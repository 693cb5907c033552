"""What a timeline shows: how many tasks were computed at once, and whether pings had to wait for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from common.report.figures.timeline import Bar, Timeline

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
