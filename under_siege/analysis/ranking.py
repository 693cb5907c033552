"""Which cases are not significantly worse than the best in a figure: multiple comparisons with the best.

Each case is compared with every other one, one-sided, at a level that is shared among the comparisons of a case with
all others (Edwards and Hsu, JASA 78, 1983). That takes fewer comparisons than all pairs, and so finds more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from under_siege.stats.estimates import CONFIDENCE, Estimate, is_below
from under_siege.stats.metrics import Measure

Load = object  # what a case is asked for; None for a case that can't be trusted
# How often `--rounds auto` looks at the ranks, at most, to decide whether another round is worth it.
LOOKS = 4
LEAST_COMPARISONS = 10


def ranks(
    loads: Sequence[Load], values: Sequence[Estimate | None], *, more_is_better: bool = True, looks: int = 1
) -> list[int | None]:
    """Return the rank of each case in a figure among those with the same load.

    The rank is 1 plus the number of cases that are significantly better. None where a figure has no interval.

    Args:
        loads: what each case is asked for; None excludes it.
        values: the figure of each case.
        more_is_better: False for times and memory.
        looks: how often the ranks were looked at (the level is divided by that: Bonferroni).
    """
    found: list[int | None] = [None] * len(loads)
    for competing in _fields(loads, values):
        alpha = level(len(competing), looks)
        for place, value in competing:
            others = [other for elsewhere, other in competing if elsewhere != place]
            found[place] = 1 + sum(is_worse(value, other, alpha, more_is_better=more_is_better) for other in others)
    return found


def level(cases: int, looks: int = 1) -> float:
    """Return the significance level of one comparison, for so many cases.

    A small field is as strict as one of eleven: else three equal servers would be told apart in one of ten results.
    """
    return (1 - CONFIDENCE) / looks / max(LEAST_COMPARISONS, cases - 1)


def is_worse(one: Estimate, other: Estimate, alpha: float, *, more_is_better: bool = True) -> bool:
    """Return whether one is significantly worse than the other."""
    return is_below(one, other, alpha) if more_is_better else is_below(other, one, alpha)


def leaders(
    loads: Sequence[Load], values: Sequence[Estimate | None], shown: Sequence[float | None], measure: Measure
) -> list[bool]:
    """Return whether each case gets a star in a figure: not significantly worse than the best, where others are.

    There are many columns of stars, so these comparisons share their level among all pairs (Bonferroni).

    A case of which little is known is not significantly worse than anything. So that a bad figure gets no star for
    that, no case gets one that is shown as worse than a case without.
    """
    found = ranks(loads, values, more_is_better=measure.more_is_better, looks=max(1, len(loads)))
    return stars_of(found, loads, shown, measure)


def stars_of(
    found: Sequence[int | None], loads: Sequence[Load], shown: Sequence[float | None], measure: Measure
) -> list[bool]:
    """Return whether each case gets a star, given the ranks."""
    stars = [False] * len(found)
    for load in dict.fromkeys(load for load, rank in zip(loads, found, strict=True) if rank):
        field = [place for place, rank in enumerate(found) if rank and loads[place] == load]
        losses = {place: -value if measure.more_is_better else value for place in field if (value := shown[place])}
        beaten = min((loss for place, loss in losses.items() if found[place] != 1), default=None)
        for place, loss in losses.items():
            stars[place] = found[place] == 1 and beaten is not None and loss <= beaten
    return stars


def _fields(loads: Sequence[Load], values: Sequence[Estimate | None]) -> Iterator[list[tuple[int, Estimate]]]:
    """Yield the places of the cases that compete with each other, with their values."""
    for load in dict.fromkeys(one for one in loads if one is not None):
        pairs = enumerate(zip(loads, values, strict=True))
        competing = [(place, value) for place, (of_case, value) in pairs if of_case == load and value and value.degrees]
        if competing:
            yield competing
