"""The middle of a few values; numpy takes many times as long for so few."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def line_through(x: Floats, y: Floats) -> tuple[float, float]:
    """Its slope, and where it is at 0; the points must not all have the same `x`."""
    middle, height = float(x.mean()), float(y.mean())
    from_middle = x - middle
    slope = float(from_middle @ (y - height) / (from_middle @ from_middle))
    return slope, height - slope * middle


def mean(values: Iterable[float]) -> float:
    """Of one at least."""
    known = list(values)
    return sum(known) / len(known)


def median(values: Iterable[float]) -> float:
    """Of one at least; between the two in the middle where there are two."""
    ordered = sorted(values)
    place, odd = divmod(len(ordered), 2)
    return float(ordered[place]) if odd else (ordered[place - 1] + ordered[place]) / 2
