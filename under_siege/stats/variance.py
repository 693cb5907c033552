"""How much a figure varies between the rounds of a case, estimated from all cases together.

Each case has few rounds, so its own variance is moderated towards that of all cases, the more the less the variances
differ beyond chance (Smyth, Linear models and empirical Bayes methods, Stat. Appl. Genet. Mol. Biol. 3, 2004, sections
3 and 6).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from under_siege.stats.significance import beyond_f, digamma, zeta

LEAST_DEGREES = 2.0  # where the other cases could give so many: with less, nothing could ever be told apart
LEAST = 1e-4  # of values that are logarithms: rounds that agree better than 0.01 % are no more exact than that

# Of rates. Noise comes from the machine and so is much the same for all cases: the prior has at least this weight.
LEAST_PRIOR_DEGREES = 8.0
# What rounds usually differ by (standard deviation of the logarithm), used as long as there are few rounds.
USUAL_DEVIATION, USUAL_DEGREES = 0.05, 6.0
LEAST_DEVIATION = 0.01
ODD_CASE = 0.003  # probability below which a case varies more than the others not just by chance
# The variance of such a case is its own, as if four more rounds had told it: with two degrees of freedom no interval
# would be of use, and simulated coverage is the same.
ODD_DEGREES = 4.0


class Spread(NamedTuple):
    """The variance of one round's logarithm around the mean of its case, and its degrees of freedom (0: unknown)."""

    variance: float
    degrees: float


def moderated(cases: Sequence[Sequence[float]]) -> list[Spread]:
    """Return the spread of each case, given the logarithms of its rounds."""
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


def pooled(cases: Sequence[Sequence[tuple[float, float]]]) -> list[Spread]:
    """Return the spread of each case where the noise of all cases has the same causes, as that of rates has.

    A case that varies much more than the others keeps its own variance. A case with a single round has that of the
    others, and a result with few rounds starts from `USUAL_DEVIATION`.

    Args:
        cases: of each round the logarithm, and the variance that a known disturbance adds to it.
    """
    own = [Spread(max(_undisturbed(values), LEAST**2), len(values) - 1.0) for values in cases if len(values) > 1]
    alike = [one for one in own if not _is_odd(one, _common([other for other in own if other is not one]))]
    common = _common(alike)
    prior = _prior([(one.variance, int(one.degrees)) for one in alike])[0] if alike else 0.0
    weight = min(max(prior, LEAST_PRIOR_DEGREES), 1e6)
    found, of_case = [], iter(own)
    for values in cases:
        one = next(of_case) if len(values) > 1 else Spread(0.0, 0.0)
        if one.degrees and one not in alike:
            found.append(
                Spread((common.variance + one.degrees * one.variance) / (1 + one.degrees), ODD_DEGREES + one.degrees)
            )
        else:
            variance = (weight * common.variance + one.degrees * one.variance) / (weight + one.degrees)
            found.append(Spread(variance, min(weight + one.degrees, common.degrees)))
    return found


def _undisturbed(values: Sequence[tuple[float, float]]) -> float:
    """Return the sample variance, where disturbed rounds count less."""
    weights = [1 / (1 + disturbance / USUAL_DEVIATION**2) for _, disturbance in values]
    middle = sum(weight * value for weight, (value, _) in zip(weights, values, strict=True)) / sum(weights)
    squares = sum(weight * (value - middle) ** 2 for weight, (value, _) in zip(weights, values, strict=True))
    return squares / (len(values) - 1)


def _common(known: Sequence[Spread]) -> Spread:
    """Return the variance that cases have in common; with few degrees of freedom, the usual one counts as well."""
    total = sum(one.degrees for one in known)
    added = max(0.0, USUAL_DEGREES - total)
    squares = sum(one.variance * one.degrees for one in known) + added * USUAL_DEVIATION**2
    return Spread(max(squares / (total + added), LEAST_DEVIATION**2), total + added)


def _is_odd(one: Spread, others: Spread) -> bool:
    """Return whether a case varies more than the others, and not just by chance (F test)."""
    return beyond_f(one.degrees, others.degrees, one.variance / others.variance) < ODD_CASE


def _prior(known: Sequence[tuple[float, int]]) -> tuple[float, float]:
    """Return degrees of freedom and size of what variances have in common; infinitely many if they differ by chance.

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
    """Return the sample variance."""
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)


@lru_cache(1000)
def _expected_log(degrees: float) -> float:
    """Return the expected logarithm of a variance estimate with so many degrees of freedom, where the variance is 1."""
    return digamma(degrees / 2) - math.log(degrees / 2)


@lru_cache(1000)
def _variance_of_log(degrees: int) -> float:
    return _trigamma(degrees / 2)


def _trigamma(value: float) -> float:
    """Return the derivative of digamma, a Hurwitz zeta function (Abramowitz and Stegun 6.4.10)."""
    return zeta(2, value)


def _inverse_trigamma(value: float) -> float:
    """Invert by Newton's method (Smyth 2004, appendix)."""
    found = 0.5 + 1 / value
    for _ in range(50):
        trigamma = _trigamma(found)
        step = trigamma * (1 - trigamma / value) / (-2 * zeta(3, found))
        found += step
        if -step / found < 1e-8:
            break
    return found
