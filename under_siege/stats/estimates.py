"""What the rounds of a case say about one figure, and whether two cases differ in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low

import numpy as np

from under_siege.stats.significance import student, student_at
from under_siege.stats.variance import Spread, moderated, pooled

CONFIDENCE = 0.95
ACCURACY = 0.02  # what the estimator of the rate is tested to: nothing smaller is called a difference
LEAST_TYPICAL_DEGREES = 6.0  # the usual deviation between rounds is known at least as well as that


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean over the rounds of the logarithm of a figure, its variance, and the degrees of freedom of that."""

    log: float
    variance: float  # of the mean; not a number where no case has two rounds
    degrees: float
    rounds: float = 1.0  # how many undisturbed rounds say as much
    # Variance and degrees of freedom if this case varied no more than the others usually do.
    typical_variance: float = math.nan
    typical_degrees: float = 0.0

    @property
    def mean(self) -> float:
        """Of the figure itself: the geometric one."""
        return float(np.exp(self.log))

    def interval(self, besides: float = 0.0, around: float | None = None) -> tuple[float, float] | None:
        """Return the 95 % confidence interval (Student's t), if there is one.

        Args:
            besides: variance that the rounds have in common.
            around: a better estimate of the figure than the mean of its rounds (`sectioning`: Asmussen and Glynn,
                Stochastic Simulation, 2007, III.5).
        """
        if not self.degrees or not math.isfinite(self.variance):
            return None
        margin = student_at(self.degrees, (1 + CONFIDENCE) / 2) * (self.variance + besides) ** 0.5
        center = self.log if around is None else math.log(around)
        return float(np.exp(center - margin)), float(np.exp(center + margin))

    def bound(self, probability: float) -> float:
        """Return the one-sided confidence bound of the logarithm; below 0.5 it is a lower one."""
        return float(self.log + student_at(self.degrees, probability) * self.variance**0.5)


def estimates(cases: Sequence[Sequence[float | None]]) -> list[Estimate | None]:
    """Return the estimate of each case from those of its rounds that have a value above 0; None where none has."""
    logs = [[math.log(value) for value in case if value is not None and value > 0] for case in cases]
    return [_estimate(known, spread) for known, spread in zip(logs, moderated(logs), strict=True)]


def _estimate(logs: Sequence[float], spread: Spread) -> Estimate | None:
    if not logs:
        return None
    degrees = spread.degrees if math.isfinite(spread.variance) else 0.0  # one round has the noise of the other cases
    variance = spread.variance / len(logs)
    return Estimate(sum(logs) / len(logs), variance, degrees, float(len(logs)), variance, degrees)


def weighted_estimates(cases: Sequence[Sequence[tuple[float, float]]]) -> list[Estimate | None]:
    """Return the estimate of each case from rounds that were disturbed more or less.

    The noise between rounds is pooled over the cases. A single round has an interval, too: that of the other cases'
    noise, or of the usual one.

    Args:
        cases: of each round the logarithm of the figure, and the variance that a known disturbance adds to it.
    """
    spreads = pooled(cases)
    typical = median_low([spread.variance for spread in spreads] or [math.nan])
    return [_weighted(case, spread, typical) for case, spread in zip(cases, spreads, strict=True)]


def _weighted(case: Sequence[tuple[float, float]], spread: Spread, typical: float) -> Estimate | None:
    if not case:
        return None
    weights = [1 / (spread.variance + disturbance) for _, disturbance in case]
    typically = [1 / (min(spread.variance, typical) + disturbance) for _, disturbance in case]
    log = sum(weight * value for weight, (value, _) in zip(weights, case, strict=True)) / sum(weights)
    return Estimate(
        log,
        1 / sum(weights),
        spread.degrees,
        spread.variance * sum(weights),
        1 / sum(typically),
        max(spread.degrees, LEAST_TYPICAL_DEGREES),
    )


def ratio(one: Estimate, other: Estimate) -> Estimate:
    """Return the estimate of one figure as a multiple of the other."""
    return Estimate(
        one.log - other.log,
        one.variance + other.variance,
        min(one.degrees, other.degrees),
        min(one.rounds, other.rounds),
        one.typical_variance + other.typical_variance,
        min(one.typical_degrees, other.typical_degrees),
    )


def chance(one: Estimate, other: Estimate) -> float:
    """Return how likely so large a difference is where there is none (two-sided); 1 where that can't be told."""
    return chance_of(ratio(one, other))


def chance_of(between: Estimate) -> float:
    """Return how likely a ratio so far from 1 is where it is 1 (two-sided); 1 where that can't be told."""
    if not between.degrees or not between.variance > 0:
        return 1.0
    return 2 * student(between.degrees, -abs(between.log) / between.variance**0.5)


def differ(one: Estimate, other: Estimate, comparisons: int) -> bool:
    """Return whether two differ by more than noise and `ACCURACY`, one of so many pairs that are looked at.

    The level is Šidák's (JASA 62, 1967), so that in at most 5 % of all results anything equal is told apart.
    """
    level = 1 - CONFIDENCE ** (1 / max(1, comparisons))
    return bool(abs(np.expm1(one.log - other.log)) > ACCURACY) and chance(one, other) < level


def is_below(one: Estimate, best: Estimate, alpha: float) -> bool:
    """Return whether one is significantly below the other (one-sided, Student's t), and by more than `ACCURACY`."""
    between = ratio(best, one)
    if not between.degrees or not math.isfinite(between.variance):
        return False
    margin = student_at(between.degrees, 1 - alpha) * between.variance**0.5
    return bool(between.log > max(margin, math.log1p(ACCURACY)))
