"""Who is faster than whom, who has the best of a figure, and who can't be told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from common.report.figures.estimates import Estimate, differ
from common.report.figures.measures import Measure

Load = object  # what a case is asked for; None for a case that can't be trusted


def ranks(loads: Sequence[Load], rates: Sequence[Estimate | None]) -> list[int | None]:
    """The rank of each case among those with the same load; 1 is the fastest.

    A case shares the rank of the fastest one that it can't be told apart from, and the next rank counts all before
    it (1, 1, 3). None has one after a single round, which knows no noise.
    """
    found: list[int | None] = [None] * len(loads)
    for competing in _fields(loads, rates):
        ordered = sorted(competing, key=lambda one: -one[1].log)
        leader = None
        for position, (place, rate) in enumerate(ordered, 1):
            if leader is None or differ(leader, rate, _pairs(ordered)):
                leader, rank = rate, position
            found[place] = rank
    return found


def leaders(loads: Sequence[Load], values: Sequence[Estimate | None], measure: Measure) -> list[bool]:
    """Whether each case can't be told from the best in a figure, where there are others that can be."""
    found = [False] * len(loads)
    for competing in _fields(loads, values):
        best = (max if measure.more_is_better else min)((value for _, value in competing), key=lambda value: value.log)
        equal = [place for place, value in competing if not differ(best, value, _pairs(competing))]
        for place in equal if len(equal) < len(competing) else ():
            found[place] = True
    return found


def _fields(loads: Sequence[Load], values: Sequence[Estimate | None]) -> Iterator[list[tuple[int, Estimate]]]:
    """The places of the cases that compete with each other, with their values."""
    for load in dict.fromkeys(one for one in loads if one is not None):
        pairs = enumerate(zip(loads, values, strict=True))
        competing = [(place, value) for place, (of_case, value) in pairs if of_case == load and value and value.degrees]
        if competing:
            yield competing


def _pairs(competing: Sequence[object]) -> int:
    return len(competing) * (len(competing) - 1) // 2
