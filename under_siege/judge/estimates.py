"""Estimate a metric with its confidence interval from the rounds of a case, and test whether two cases differ.

The variance of each case is shrunk towards the common variance of all cases, because each case has few rounds. The
less the variances differ beyond chance, the stronger the shrinkage (Smyth, Linear models and empirical Bayes methods,
Stat. Appl. Genet. Mol. Biol. 3, 2004, sections 3 and 6). If the noise comes from the machine, cases that vary much more
than the others are left out of the prior (Phipson et al., Ann. Appl. Stat. 10, 2016).
"""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median_low
from statistics import variance as variance_of
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.optimize import brentq

CONFIDENCE = 0.95
ACCURACY = 0.02  # relative accuracy of the rate estimator in its unit tests; smaller differences are never reported
LEAST_TYPICAL_DEGREES = 6.0  # minimum degrees of freedom of the typical variance between rounds
LEAST_DEGREES = 2.0  # minimum degrees of freedom of a case; with fewer, no difference would ever be significant
LEAST_VARIANCE = 1e-8  # minimum variance, which corresponds to a standard deviation of 0.01 %
LEAST_PRIOR_DEGREES = 8.0  # minimum weight of the prior for machine noise, which is similar for all cases
MOST_PRIOR_DEGREES = 1e6
# The usual standard deviation of a rate's logarithm between rounds. It supplements the measured variances until they
# have USUAL_DEGREES degrees of freedom.
USUAL_DEVIATION, USUAL_DEGREES = 0.05, 6.0
LEAST_DEVIATION = 0.01  # minimum of the common standard deviation of noise from the machine
ODD_CASE = 0.003  # p-value below which a case counts as odd because it varies more than the others
# Degrees of freedom added to those of an odd case. In simulations, adding two degrees gave the same coverage, but the
# intervals were too wide to be useful.
ODD_DEGREES = 4.0
MOST_REQUESTS = 10**9

# The logarithm of a metric in each round, and the variance that disturbances add to it.
WeightedLogs = Sequence[tuple[float, float]]


def student_at(degrees: float, share: float) -> float:
    """Return the quantile of Student's t distribution for the probability `share`."""
    return float(special.stdtrit(degrees, share))


def beyond_f(degrees: float, others: float, f: float) -> float:
    """Return the probability that a variable with an F distribution exceeds `f`."""
    return float(special.fdtrc(degrees, others, f))


def level(comparisons: int) -> float:
    """Return the significance level of each of several comparisons (Bonferroni).

    The probability that any of them finds a difference where there is none is at most 1 - CONFIDENCE, even if the
    comparisons depend on each other. All comparisons of this program use this level.
    """
    return (1 - CONFIDENCE) / max(1, comparisons)


def share_between(hits: Sequence[int], counts: Sequence[int]) -> tuple[float, float]:
    """Return the 95 % confidence interval of a proportion, from the hits and counts of each round.

    The interval is exact for independent events (Clopper and Pearson, Biometrika 26, 1934). Because failures come in
    bursts, hits and counts are divided by the dispersion between rounds (McCullagh and Nelder, Generalized Linear
    Models, 1989, 4.5).
    """
    dispersion = _dispersion(hits, counts)
    return _exact(sum(hits) / dispersion, sum(counts) / dispersion) if any(counts) else (0.0, 1.0)


def more_needed(hits: Sequence[int], counts: Sequence[int], least: float) -> int | None:
    """Return how many more requests, with the same share of hits, would prove that the share is at least `least`.

    Return None if the share is not above `least`, or if `MOST_REQUESTS` would not be enough.
    """
    count = sum(counts)
    if not count or sum(hits) / count <= least:
        return None
    dispersion, share = _dispersion(hits, counts), sum(hits) / count

    def is_proven(more: int) -> bool:
        effective = (count + more) / dispersion
        return _exact(share * effective, effective)[0] >= least

    more = bisect.bisect_left(range(MOST_REQUESTS), True, lo=1, key=is_proven)
    return more if more < MOST_REQUESTS else None


def _exact(hits: float, count: float) -> tuple[float, float]:
    """Return the Clopper-Pearson interval for counts that may be fractional."""
    misses = count - hits
    tail = (1 - CONFIDENCE) / 2
    quantile = special.betaincinv
    low = float(quantile(hits, misses + 1, tail)) if hits > 0 else 0.0
    high = float(quantile(hits + 1, misses, 1 - tail)) if misses > 0 else 1.0
    return low, high


def _dispersion(hits: Sequence[int], counts: Sequence[int]) -> float:
    """Return the variance between rounds divided by the variance of independent events, but at least 1."""
    known = [(hit, count) for hit, count in zip(hits, counts, strict=True) if count]
    share = sum(hits) / max(1, sum(counts))
    if len(known) < 2 or not 0 < share < 1:
        return 1.0
    squares = sum((hit - count * share) ** 2 / (count * share * (1 - share)) for hit, count in known)
    return max(1.0, squares / (len(known) - 1))


class Spread(NamedTuple):
    """The variance of a metric's logarithm between the rounds of a case, and its degrees of freedom (0 if unknown)."""

    variance: float
    degrees: float


def spreads_of(cases: Sequence[WeightedLogs], usual: float | None = None) -> list[Spread]:
    """Return the spread of each case, shrunk towards the common variance of all cases.

    A case with a single round gets the common variance of the others.

    Args:
        usual: the usual standard deviation of machine noise, which is similar for all cases. It is part of the common
            variance if there are few rounds in total, and a case that varies significantly more than the others mostly
            keeps its own variance. None if each case has its own noise.
    """
    own = [_own_spread(case) for case in cases]
    known = [spread for spread in own if spread.degrees]
    alike = known if usual is None else [one for one in known if not _is_odd(one, known, usual)]
    common = _common(alike, usual)
    if not common.degrees:
        return [Spread(math.nan, 0.0)] * len(cases)
    prior = _prior(alike, common, usual)
    return [_shrunk(spread, prior, common, usual, is_odd=spread.degrees > 0 and spread not in alike) for spread in own]


def _shrunk(own: Spread, prior: Spread, common: Spread, usual: float | None, *, is_odd: bool) -> Spread:
    weight = 1.0 if is_odd else prior.degrees
    variance = (weight * prior.variance + own.degrees * own.variance) / (weight + own.degrees) if own.degrees else 0.0
    if is_odd:
        return Spread(variance, ODD_DEGREES + own.degrees)
    most = (common.degrees + own.degrees) / 2 if usual is None else common.degrees
    return Spread(variance or prior.variance, min(max(weight + own.degrees, LEAST_DEGREES), most))


def _own_spread(case: WeightedLogs) -> Spread:
    """Return the sample variance between rounds, giving less weight to disturbed rounds."""
    if len(case) < 2:
        return Spread(0.0, 0.0)
    weights = [1 / (1 + disturbance / USUAL_DEVIATION**2) for _, disturbance in case]
    mean = _weighted_mean(case, weights)
    squares = sum(weight * (log - mean) ** 2 for weight, (log, _) in zip(weights, case, strict=True))
    return Spread(max(squares / (len(case) - 1), LEAST_VARIANCE), len(case) - 1.0)


def _weighted_mean(rounds: WeightedLogs, weights: Sequence[float]) -> float:
    return sum(weight * log for weight, (log, _) in zip(weights, rounds, strict=True)) / sum(weights)


def _common(known: Sequence[Spread], usual: float | None) -> Spread:
    """Return the common variance of the cases, combined with the usual variance if there are few degrees of freedom."""
    total, squares = sum(degrees for _, degrees in known), sum(variance * degrees for variance, degrees in known)
    if usual is None:
        return Spread(squares / total, total) if total else Spread(math.nan, 0.0)
    added = max(0.0, USUAL_DEGREES - total)
    variance = (squares + added * usual**2) / (total + added)
    return Spread(max(variance, LEAST_DEVIATION**2), total + added)


def _is_odd(case: Spread, known: Sequence[Spread], usual: float) -> bool:
    """Return whether a case varies significantly more than the others (F test)."""
    common = _common([other for other in known if other is not case], usual)
    return beyond_f(case.degrees, common.degrees, case.variance / common.variance) < ODD_CASE


def _prior(known: Sequence[Spread], common: Spread, usual: float | None) -> Spread:
    """Return the prior. The less the variances differ beyond chance, the more degrees of freedom it has."""
    prior = Spread(common.variance, 0.0)
    if len(known) > 1:
        levels = [math.log(variance) - _expected_log(degrees) for variance, degrees in known]
        beyond_chance = variance_of(levels) - fmean(float(special.polygamma(1, degrees / 2)) for _, degrees in known)
        prior = Spread(common.variance, MOST_PRIOR_DEGREES)
        if beyond_chance > special.polygamma(1, MOST_PRIOR_DEGREES / 2):
            half = brentq(lambda half: special.polygamma(1, half) - beyond_chance, 1e-3, MOST_PRIOR_DEGREES / 2)
            prior = Spread(math.exp(fmean(levels) + _expected_log(2 * half)), 2 * half)
    return prior if usual is None else Spread(common.variance, max(prior.degrees, LEAST_PRIOR_DEGREES))


def _expected_log(degrees: float) -> float:
    """Return the expected logarithm of a sample variance with these degrees of freedom, if the true variance is 1."""
    return float(special.digamma(degrees / 2)) - math.log(degrees / 2)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean logarithm of a metric over the rounds, the variance of this mean, and its degrees of freedom."""

    log: float
    variance: float  # NaN if no case has two rounds
    degrees: float
    rounds: float = 1.0  # the number of undisturbed rounds that would give the same variance
    # Variance and degrees of freedom, assuming that this case varies no more than a typical case.
    typical_variance: float = math.nan
    typical_degrees: float = 0.0

    @property
    def mean(self) -> float:
        """Return the geometric mean of the metric."""
        return float(np.exp(self.log))

    def interval(self, besides: float = 0.0, around: float | None = None) -> tuple[float, float] | None:
        """Return the 95 % confidence interval (Student's t), or None if the variance is unknown.

        `besides` is an additional variance that all rounds share. If a better estimate than the mean over the rounds
        exists, pass it as `around`, the center of the interval (sectioning: Asmussen and Glynn, Stochastic Simulation,
        2007, III.5).
        """
        if not self.degrees or not math.isfinite(self.variance):
            return None
        margin = student_at(self.degrees, (1 + CONFIDENCE) / 2) * (self.variance + besides) ** 0.5
        center = self.log if around is None else math.log(around)
        return float(np.exp(center - margin)), float(np.exp(center + margin))

    def bound(self, probability: float) -> float:
        """Return a one-sided confidence bound of the logarithm; it is a lower bound if `probability` is below 0.5."""
        return float(self.log + student_at(self.degrees, probability) * self.variance**0.5)


def estimates(cases: Sequence[Sequence[float | None]]) -> list[Estimate | None]:
    """Return the estimate of each case from its positive values, or None for a case without any.

    Each case has its own noise.
    """
    known = [[(math.log(value), 0.0) for value in case if value is not None and value > 0] for case in cases]
    return weighted_estimates(known, usual=None)


def weighted_estimates(cases: Sequence[WeightedLogs], usual: float | None = USUAL_DEVIATION) -> list[Estimate | None]:
    """Return the estimate of each case from rounds that were disturbed to different extents; see `spreads_of`.

    If the noise comes from the machine, even a case with a single round has an interval, based on the noise of the
    other cases or on the usual noise.
    """
    spreads = spreads_of(cases, usual)
    typical = median_low([spread.variance for spread in spreads] or [math.nan])
    return [_weighted(case, spread, typical) if case else None for case, spread in zip(cases, spreads, strict=True)]


def _weighted(case: WeightedLogs, spread: Spread, typical: float) -> Estimate:
    if not spread.degrees:
        return Estimate(sum(log for log, _ in case) / len(case), math.nan, 0.0, float(len(case)))
    weights = [1 / (spread.variance + disturbance) for _, disturbance in case]
    typical_weights = [1 / (min(spread.variance, typical) + disturbance) for _, disturbance in case]
    return Estimate(
        _weighted_mean(case, weights),
        1 / sum(weights),
        spread.degrees,
        spread.variance * sum(weights),
        1 / sum(typical_weights),
        max(spread.degrees, LEAST_TYPICAL_DEGREES),
    )


def ratio(one: Estimate, other: Estimate) -> Estimate:
    """Return the estimate of `one` divided by `other`."""
    return Estimate(
        one.log - other.log,
        one.variance + other.variance,
        min(one.degrees, other.degrees),
        min(one.rounds, other.rounds),
        one.typical_variance + other.typical_variance,
        min(one.typical_degrees, other.typical_degrees),
    )


def chance_of(between: Estimate) -> float:
    """Return the two-sided p-value for the hypothesis that a ratio is 1, or 1.0 if its variance is unknown."""
    if not between.degrees or not between.variance > 0:
        return 1.0
    return 2 * float(special.stdtr(between.degrees, -abs(between.log) / between.variance**0.5))


def differ(one: Estimate, other: Estimate, comparisons: int) -> bool:
    """Return whether two estimates differ significantly and by more than `ACCURACY`.

    At most 5 % of all results report any difference between equal cases.
    """
    between = ratio(one, other)
    return bool(abs(np.expm1(between.log)) > ACCURACY) and chance_of(between) < level(comparisons)


def is_below(one: Estimate, best: Estimate, alpha: float) -> bool:
    """Return whether `one` is significantly below `best` (one-sided t test), and by more than `ACCURACY`."""
    between = ratio(best, one)
    if not between.degrees or not math.isfinite(between.variance):
        return False
    margin = student_at(between.degrees, 1 - alpha) * between.variance**0.5
    return bool(between.log > max(margin, math.log1p(ACCURACY)))
