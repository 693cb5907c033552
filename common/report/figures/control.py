"""The control variate: how far a figure follows the machine's speed, estimated from the measurements themselves.

Where the logarithm of a figure moves by `coefficient` times the logarithm of the speed, that much of its variation is
not its own and can be taken out (Lavenberg and Welch, Management Science 27, 1981). About 1 for work that computes,
about 0 for work that waits. Each case's own slope is drawn towards that of all as far as they differ by chance only
(DerSimonian and Laird, Controlled Clinical Trials 7, 1986), and where the speed explains nothing, it is 0.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from common.report.figures.distributions import student_at

Floats = NDArray[np.float64]

MOST = 1.3  # a task may suffer more than the metronome from what slows it down, but not at will
LEAST = 0.1  # no correction is worth less
SURE = 0.99  # that a slope is more than chance
CLEARLY = 3  # times what chance would let the slopes of the cases differ, and they do differ
SPEED = 0.02  # standard deviation of the logarithm of a speed itself, as is seen on a quiet machine


class Slope(NamedTuple):
    """How far a figure follows the speed, and how uncertain that is."""

    value: float = 0.0
    variance: float = float("inf")


NOT_CORRECTED = Slope(0.0, 0.0)


class Windows:
    """The logarithms of speeds and of a figure in the windows of each case, in any order."""

    def __init__(self, speeds: Sequence[Floats], values: Sequence[Floats]) -> None:
        xs = [speed - speed.mean() if len(speed) else speed for speed in speeds]
        ys = [value - value.mean() if len(value) else value for value in values]
        self._sxx = np.array([float(x @ x) for x in xs])
        self._sxy = np.array([float(x @ y) for x, y in zip(xs, ys, strict=True)])
        self._degrees = sum(len(x) - 1 for x in xs if len(x)) - 1
        self._tell = self._degrees >= 1 and bool(self._sxx.sum() > 0)
        if self._tell:
            self._pooled = float(self._sxy.sum() / self._sxx.sum())
            rest = sum(float(((y - self._pooled * x) ** 2).sum()) for x, y in zip(xs, ys, strict=True))
            self._rest = rest / self._degrees
            self._hidden = min(1.0, float(SPEED**2 * sum(map(len, xs)) / self._sxx.sum()))
            self._pooled_variance = float(self._rest / self._sxx.sum())

    def coefficients(self) -> list[Slope]:
        """The coefficient of each case."""
        if not self._tell or self._pooled <= student_at(self._degrees, SURE) * self._pooled_variance**0.5:
            return [NOT_CORRECTED] * len(self._sxx)
        return [
            NOT_CORRECTED if slope.value < LEAST else Slope(min(slope.value, MOST), slope.variance)
            for slope in self._drawn_together
        ]

    def slopes(self) -> list[Slope]:
        """The slope of each case, whether or not it is more than chance.

        Where the speeds vary by no more than they are uncertain, that draws slopes towards 0 (Fuller, Measurement
        Error Models, 1987, § 1.1), and so much more uncertain they are.
        """
        if not self._tell:
            return [Slope()] * len(self._sxx)
        return [Slope(slope.value, slope.variance + self._hidden**2) for slope in self._drawn_together]

    @cached_property
    def _drawn_together(self) -> list[Slope]:
        """Each slope, drawn towards the pooled one by what of its distance may be chance."""
        sxx, pooled = self._sxx, self._pooled
        weights = sxx / max(self._rest, 1e-12)  # 1 / variance of a slope
        own = np.divide(self._sxy, sxx, out=np.full(len(sxx), pooled), where=sxx > 0)
        chance = np.count_nonzero(weights) - 1
        beyond = float((weights * (own - pooled) ** 2).sum()) - chance
        if beyond <= CLEARLY * chance:  # with slopes of their own the few rounds of a case would explain their noise
            return [Slope(pooled, self._pooled_variance)] * len(sxx)
        between = beyond / (weights.sum() - (weights**2).sum() / weights.sum())
        trust = between * weights / (1 + between * weights)
        variances = between * (1 - trust) + (1 - trust) ** 2 * self._pooled_variance
        drawn = zip(pooled + trust * (own - pooled), variances, strict=True)
        return [Slope(float(value), float(variance)) for value, variance in drawn]
