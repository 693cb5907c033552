"""When a task that was begun waits for something else than its turn, such as a database: then it needs no core."""

from collections.abc import Iterator, Sequence

import numpy as np

from common.report.figures.patterns import computed_s
from common.report.figures.timeline import Bar, Lane

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
