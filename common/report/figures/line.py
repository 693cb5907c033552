"""The straight line through some points: least squares."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def line_through(x: Floats, y: Floats) -> tuple[float, float]:
    """Its slope, and where it is at 0; the points must not all have the same `x`."""
    middle, height = float(x.mean()), float(y.mean())
    from_middle = x - middle
    slope = float(from_middle @ (y - height) / (from_middle @ from_middle))
    return slope, height - slope * middle
