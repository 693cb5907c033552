"""The middle of a few values; numpy takes many times as long for so few."""

from collections.abc import Iterable


def mean(values: Iterable[float]) -> float:
    """Of one at least."""
    known = list(values)
    return sum(known) / len(known)


def median(values: Iterable[float]) -> float:
    """Of one at least; between the two in the middle where there are two."""
    ordered = sorted(values)
    place, odd = divmod(len(ordered), 2)
    return float(ordered[place]) if odd else (ordered[place - 1] + ordered[place]) / 2
