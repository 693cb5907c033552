"""The control variate: how far a figure follows the machine's speed, estimated from the measurements themselves.

Where the logarithm of a figure moves by `coefficient` times the logarithm of the speed, that much of its variation is
not its own and can be taken out (Lavenberg and Welch, Management Science 27, 1981). About 1 for work that computes,
about 0 for work that waits. Each case's own slope is drawn towards that of all as far as they differ by chance only
(DerSimonian and Laird, Controlled Clinical Trials 7, 1986), and where the speed explains nothing, it is 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

Floats = NDArray[np.float64]

MOST = 1.3  # a task may suffer more than the metronome from what slows it down, but not at will
LEAST = 0.1  # no correction is worth less
SURE = 0.99  # that a slope is more than chance
CLEARLY = 3  # times what chance would let the slopes of the cases differ, and they do differ


class Coefficient(NamedTuple):
    """How far a figure follows the speed, and the standard error of that."""

    value: float = 0.0
    error: float = 0.0


NONE = Coefficient()


def coefficients(speeds: Sequence[Floats], values: Sequence[Floats]) -> list[Coefficient]:
    """The coefficient of each case, given the logarithms of speeds and of a figure in its windows, in any order."""
    xs = [speed - speed.mean() if len(speed) else speed for speed in speeds]
    ys = [value - value.mean() if len(value) else value for value in values]
    sxx = np.array([float(x @ x) for x in xs])
    sxy = np.array([float(x @ y) for x, y in zip(xs, ys, strict=True)])
    degrees = sum(len(x) - 1 for x in xs if len(x)) - 1
    if degrees < 1 or sxx.sum() <= 0:
        return [NONE] * len(xs)
    pooled = float(sxy.sum() / sxx.sum())
    rest = sum(float(((y - pooled * x) ** 2).sum()) for x, y in zip(xs, ys, strict=True)) / degrees
    error = (rest / float(sxx.sum())) ** 0.5
    if pooled <= float(stdtrit(degrees, SURE)) * error:
        return [NONE] * len(xs)
    slopes = _drawn_together(sxx, sxy, pooled, rest)
    return [NONE if slope < LEAST else Coefficient(min(float(slope), MOST), error) for slope in slopes]


def _drawn_together(sxx: Floats, sxy: Floats, pooled: float, rest: float) -> Floats:
    """Each slope, drawn towards the pooled one by what of its distance may be chance."""
    weights = sxx / max(rest, 1e-12)  # 1 / variance of a slope
    slopes = np.divide(sxy, sxx, out=np.full(len(sxx), pooled), where=sxx > 0)
    chance = np.count_nonzero(weights) - 1
    beyond = float((weights * (slopes - pooled) ** 2).sum()) - chance
    if beyond < CLEARLY * chance:  # with slopes of their own the few rounds of a case would explain their own noise
        return np.full(len(sxx), pooled)
    scale = weights.sum() - (weights**2).sum() / weights.sum()
    between = beyond / scale if scale > 0 else 0.0
    trust = between * weights / (1 + between * weights)
    drawn: Floats = pooled + trust * (slopes - pooled)
    return drawn
