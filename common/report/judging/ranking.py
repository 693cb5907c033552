"""Who is faster than whom, who has the best of a figure, and who can't be told apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from common.report.figures.estimates import Estimate, differ
from common.report.figures.measures import Measure

Load = object  # what a case is asked for; None for a case that can't be trusted


def ranks(loads: Sequence[Load], values: Sequence[Estimate | None], *, more_is_better: bool = True) -> list[int | None]:
    """The rank of each case in a figure among those with the same load; 1 is the best.

    A case shares the rank of the best one that it can't be told apart from, and the next rank counts all before
    it (1, 1, 3). None has one after a single round, which knows no noise.
    """
    found: list[int | None] = [None] * len(loads)
    for competing in _fields(loads, values):
        ordered = sorted(competing, key=lambda one: -one[1].log if more_is_better else one[1].log)
        leader = None
        for position, (place, value) in enumerate(ordered, 1):
            if leader is None or differ(leader, value, _pairs(ordered)):
                leader, rank = value, position
            found[place] = rank
    return found


def leaders(
    loads: Sequence[Load], values: Sequence[Estimate | None], shown: Sequence[float | None], measure: Measure
) -> list[bool]:
    """Whether each case has a star in a figure: it can't be told from the best, where there are others that can be.

    None has one that is behind another without, neither by its estimate nor as it is shown. A case of which little is
    known can be told from nothing: were it only asked whether it is worse than the best, it would have a star however
    bad its figure is. So it has one only if it shares the first rank. And what is shown is of all rounds together, at
    the speed that the machine had: who is ahead of a star in that has one, too, which says no more than is known.
    """
    found = ranks(loads, values, more_is_better=measure.more_is_better)
    stars = [rank == 1 for rank in found]
    for load in dict.fromkeys(load for load, rank in zip(loads, found, strict=True) if rank):
        field = [place for place, rank in enumerate(found) if rank and loads[place] == load]
        losses = {place: -value if measure.more_is_better else value for place in field if (value := shown[place])}
        worst = max((losses[place] for place in losses if stars[place]), default=0.0)
        for place in losses:
            stars[place] = losses[place] <= worst
        if all(stars[place] for place in field):  # nothing is beaten
            for place in field:
                stars[place] = False
    return stars


def _fields(loads: Sequence[Load], values: Sequence[Estimate | None]) -> Iterator[list[tuple[int, Estimate]]]:
    """The places of the cases that compete with each other, with their values."""
    for load in dict.fromkeys(one for one in loads if one is not None):
        pairs = enumerate(zip(loads, values, strict=True))
        competing = [(place, value) for place, (of_case, value) in pairs if of_case == load and value and value.degrees]
        if competing:
            yield competing


def _pairs(competing: Sequence[object]) -> int:
    return len(competing) * (len(competing) - 1) // 2
