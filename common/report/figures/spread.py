"""How far rounds scatter: each case's own rounds are few, so that those of the cases beside it help to tell.

Moderated variances: the variance of each case is drawn towards that of all, the more the less they differ beyond
chance (Smyth, Linear models and empirical Bayes methods, Stat. Appl. Genet. Mol. Biol. 3, 2004, §§ 3 and 6).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from common.report.figures.distributions import digamma, zeta

LEAST_DEGREES = 2.0  # where the other cases could give so many: with less, nothing could ever be told apart
LEAST = 1e-4  # of values that are logarithms: rounds that agree better than 0.01 % are no more exact than that


class Spread(NamedTuple):
    """The variance of one round's value around its case's mean, and its degrees of freedom (0 where not known)."""

    variance: float
    degrees: float


def moderated(cases: Sequence[Sequence[float]]) -> list[Spread]:
    """The spread of each case, given the values of its rounds; values are logarithms, so that cases compare."""
    degrees = [max(0, len(values) - 1) for values in cases]
    variances = [max(_variance(values), LEAST**2) if len(values) > 1 else math.nan for values in cases]
    known = [(own, count) for own, count in zip(variances, degrees, strict=True) if count]
    if not known:
        return [Spread(math.nan, 0.0)] * len(cases)
    prior_degrees, prior = _prior(known)
    all_degrees, weight = sum(degrees), min(prior_degrees, 1e9)
    found = []
    for own, count in zip(variances, degrees, strict=True):
        variance = prior if not count else (weight * prior + count * own) / (weight + count)
        found.append(Spread(variance, min(max(weight + count, LEAST_DEGREES), (all_degrees + count) / 2)))
    return found


def _prior(known: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Degrees of freedom and size of what variances have in common; infinitely many if they differ by chance.

    Args:
        known: each variance and its degrees of freedom.
    """
    pooled = sum(own * count for own, count in known) / sum(count for _, count in known)
    if len(known) == 1:
        return 0.0, pooled
    levels = [math.log(own) - _expected_log(count) for own, count in known]
    by_chance = sum(_variance_of_log(count) for _, count in known) / len(known)
    beyond_chance = _variance(levels) - by_chance
    if beyond_chance <= 0:
        return math.inf, pooled
    prior_degrees = 2 * _inverse_trigamma(beyond_chance)
    return prior_degrees, math.exp(sum(levels) / len(levels) + _expected_log(prior_degrees))


def _variance(values: Sequence[float]) -> float:
    """Of a few, from their own mean."""
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


@lru_cache(1000)
def _expected_log(degrees: float) -> float:
    """Of a variance that is 1, told from so many degrees of freedom."""
    return digamma(degrees / 2) - math.log(degrees / 2)


@lru_cache(1000)
def _variance_of_log(degrees: int) -> float:
    return _trigamma(degrees / 2)


def _trigamma(value: float) -> float:
    """The derivatives of digamma are Hurwitz zeta functions (Abramowitz and Stegun 6.4.10)."""
    return zeta(2, value)


def _inverse_trigamma(value: float) -> float:
    """By Newton's method (Smyth 2004, appendix)."""
    found = 0.5 + 1 / value
    for _ in range(50):
        trigamma = _trigamma(found)
        step = trigamma * (1 - trigamma / value) / (-2 * zeta(3, found))
        found += step
        if -step / found < 1e-8:
            break
    return found
