"""What the rounds of a case say of one figure, and whether two cases differ in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.report.figures.distributions import student, student_at
from common.report.figures.spread import Spread, moderated

CONFIDENCE = 0.95
# Who looks after every round, and stops when the interval is short enough, stops too often where it is so by chance.
# Simulated (tests/test_estimates.py), so much confidence is needed at each look that 95 % are left.
CONFIDENCE_OF_LOOKS = 0.966
ACCURACY = 0.02  # what the estimator of the rate is tested to: nothing smaller is called a difference


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean over the rounds of the logarithm of a figure, its variance, and the degrees of freedom of that."""

    log: float
    variance: float  # of the mean; not a number after a single round
    degrees: float
    round_variance: float  # of one round
    confidence: float = CONFIDENCE

    @property
    def mean(self) -> float:
        """Of the figure itself: the geometric one."""
        return float(np.exp(self.log))

    def interval(self, besides: float = 0.0, around: float | None = None) -> tuple[float, float] | None:
        """The 95 % confidence interval (Student's t), if there is one.

        Args:
            besides: variance that the rounds have in common.
            around: a better estimate of the figure than the mean of its rounds (`sectioning`: Asmussen and Glynn,
                Stochastic Simulation, 2007, III.5).
        """
        if not self.degrees or not math.isfinite(self.variance):
            return None
        margin = student_at(self.degrees, (1 + self.confidence) / 2) * (self.variance + besides) ** 0.5
        center = self.log if around is None else math.log(around)
        return float(np.exp(center - margin)), float(np.exp(center + margin))


def estimates(cases: Sequence[Sequence[float | None]], confidence: float = CONFIDENCE) -> list[Estimate | None]:
    """The estimate of each case from the values of those of its rounds that have one above 0; None where none has."""
    logs = [[math.log(value) for value in case if value is not None and value > 0] for case in cases]
    return [_estimate(known, spread, confidence) for known, spread in zip(logs, moderated(logs), strict=True)]


def _estimate(logs: Sequence[float], spread: Spread, confidence: float) -> Estimate | None:
    if not logs:
        return None
    degrees = spread.degrees if len(logs) > 1 else 0.0  # one round knows no noise
    return Estimate(sum(logs) / len(logs), spread.variance / len(logs), degrees, spread.variance, confidence)


def ratio(one: Estimate, other: Estimate) -> Estimate:
    """The estimate of one figure as a multiple of the other."""
    return Estimate(
        one.log - other.log,
        one.variance + other.variance,
        min(one.degrees, other.degrees),
        one.round_variance + other.round_variance,
        max(one.confidence, other.confidence),
    )


def chance(one: Estimate, other: Estimate) -> float:
    """How likely so large a difference is where there is none (two-sided); 1 where that can't be told."""
    return chance_of(ratio(one, other))


def chance_of(between: Estimate) -> float:
    """How likely a ratio so far from 1 is where it is 1 (two-sided); 1 where that can't be told."""
    if not between.degrees or not between.variance > 0:
        return 1.0
    return 2 * student(between.degrees, -abs(between.log) / between.variance**0.5)


def differ(one: Estimate, other: Estimate, comparisons: int) -> bool:
    """Whether two differ by more than noise and more than our accuracy, one of so many pairs that are looked at.

    The level is Šidák's (JASA 62, 1967), so that in at most 5 % of all results anything equal is told apart.
    """
    level = 1 - max(one.confidence, other.confidence) ** (1 / max(1, comparisons))
    return bool(abs(np.expm1(one.log - other.log)) > ACCURACY) and chance(one, other) < level
