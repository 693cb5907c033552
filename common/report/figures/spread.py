"""How far rounds scatter: each case's own rounds are few, so that those of the cases beside it help to tell.

Moderated variances: the variance of each case is drawn towards that of all, the more the less they differ beyond
chance (Smyth, Linear models and empirical Bayes methods, Stat. Appl. Genet. Mol. Biol. 3, 2004, §§ 3 and 6).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, zeta

LEAST_DEGREES = 2.0  # where the other cases could give so many: with less, nothing could ever be told apart
LEAST = 1e-4  # of values that are logarithms: rounds that agree better than 0.01 % are no more exact than that


class Spread(NamedTuple):
    """The variance of one round's value around its case's mean, and its degrees of freedom (0 where not known)."""

    variance: float
    degrees: float


def moderated(cases: Sequence[Sequence[float]]) -> list[Spread]:
    """The spread of each case, given the values of its rounds; values are logarithms, so that cases compare."""
    degrees = np.array([max(0, len(values) - 1) for values in cases], dtype=float)
    variances = np.array([max(np.var(values, ddof=1), LEAST**2) if len(values) > 1 else np.nan for values in cases])
    known = degrees > 0
    if not known.any():
        return [Spread(float("nan"), 0.0)] * len(cases)
    prior_degrees, prior = _prior(variances[known], degrees[known])
    most = (degrees.sum() + degrees) / 2
    found = []
    for own, count, limit in zip(variances, degrees, most, strict=True):
        both = min(prior_degrees, 1e9) + count
        variance = prior if not count else (min(prior_degrees, 1e9) * prior + count * own) / both
        found.append(Spread(float(variance), float(min(max(both, LEAST_DEGREES), limit))))
    return found


def _prior(variances: np.ndarray, degrees: np.ndarray) -> tuple[float, float]:
    """Degrees of freedom and size of what the variances have in common; infinitely many if they differ by chance."""
    pooled = float((degrees * variances).sum() / degrees.sum())
    if len(variances) == 1:
        return 0.0, pooled
    levels = np.log(variances) - digamma(degrees / 2) + np.log(degrees / 2)
    beyond_chance = float(np.var(levels, ddof=1) - _trigamma(degrees / 2).mean())
    if beyond_chance <= 0:
        return float("inf"), pooled
    prior_degrees = 2 * _inverse_trigamma(beyond_chance)
    return prior_degrees, float(np.exp(levels.mean() + digamma(prior_degrees / 2) - np.log(prior_degrees / 2)))


def _trigamma(value: float | np.ndarray) -> np.ndarray:
    """The derivatives of digamma are Hurwitz zeta functions (Abramowitz and Stegun 6.4.10)."""
    return np.asarray(zeta(2, value))


def _inverse_trigamma(value: float) -> float:
    """By Newton's method (Smyth 2004, appendix)."""
    found = 0.5 + 1 / value
    for _ in range(50):
        trigamma = float(_trigamma(found))
        step = trigamma * (1 - trigamma / value) / float(-2 * zeta(3, found))
        found += step
        if -step / found < 1e-8:
            break
    return found
