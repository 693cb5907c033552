"""Estimate the rate at which a figure reaches its limit where no queue explains it, from a few steps at other rates.

The figure is taken to follow a power of the rate: ping latency, for example. Where requests are refused, the percentile
of the others says nothing until it is too late; then the requests that missed the limit are counted, and their number
follows a power of the rate. The rate, the power and the scatter of the steps are estimated together: Bayes' rule on a
grid, with weak priors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

Floats = NDArray[np.float64]

POWERS = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 40.0])
SCATTERS = np.array([0.03, 0.06, 0.1, 0.16, 0.25, 0.4, 0.7])  # standard deviations of a step's logarithm
SCATTER_PRIOR = np.array([0.6, 0.8, 1.0, 1.0, 1.0, 1.0, 0.7])
WIDTH_OF_GUESS = 0.4
CLUMPS = np.array([1.05, 1.3, 1.6, 2.0, 2.5, 4.0, 8.0])  # variance of a count as a multiple of its mean
POWER_PRIOR_OF_COUNTS = np.minimum(1.0, POWERS / 4)
CLEAR = math.log(6)  # beyond so many times the limit, or its part, a step only says on which side of the knee it is
ODD = 0.005  # share of steps that say something else altogether
ODD_BREAK, NEAR = 0.01, 0.03  # how often a step breaks below the knee; and how near to it that is no surprise
POINTS = 240  # of the grid of rates; a second, finer one follows
LEAST_ERROR = 0.015  # of a rate that was estimated from service times
DEVIATIONS = 5.0


@dataclass(frozen=True, slots=True)
class Look:
    """What a step says about one figure."""

    per_s: float  # at the usual speed of the machine
    excess: float  # the logarithm of the figure as a multiple of its limit; infinite where it broke
    broke: bool = False  # the step ended early because so much missed the limit: the knee lies below it
    missed: int = 0  # how many requests missed the limit,
    allowed: float = 0.0  # and how many may; 0: the figure itself says more


class Knee:
    """The probability distribution of the rate at which a figure reaches its limit."""

    def __init__(self, rates: Floats, probable: Floats, *, is_replayed: bool = False) -> None:
        self._rates, self._sums = rates, np.cumsum(probable) / probable.sum()
        self.is_replayed = is_replayed

    def rate(self, share: float) -> float:
        """Return that quantile."""
        return float(np.exp(np.interp(share, self._sums, np.log(self._rates))))

    def below(self, per_s: Floats) -> Floats:
        """Return the probability that the knee lies below each rate."""
        probable = np.interp(np.log(per_s), np.log(self._rates), self._sums, left=0.0, right=1.0)
        return np.asarray(probable, dtype=np.float64)


def knee_of_replicates(rates: Floats) -> Knee:
    """Return the log-normal distribution of bootstrap replicates."""
    spread = math.hypot(float(np.std(np.log(rates))), LEAST_ERROR)
    deviations = np.linspace(-DEVIATIONS, DEVIATIONS, POINTS)
    return Knee(np.median(rates) * np.exp(spread * deviations), np.exp(-(deviations**2) / 2), is_replayed=True)


def knee(looks: Sequence[Look], least: float, most: float, guess: float) -> Knee:
    """Estimate the knee between two rates."""
    rates = np.geomspace(least, most, POINTS)
    found = Knee(rates, _probable(looks, rates, guess))
    rates = np.geomspace(found.rate(0.0005) * 0.97, found.rate(0.9995) * 1.03, POINTS)
    rates = rates[(rates >= least * 0.999) & (rates <= most * 1.001)]
    return Knee(rates, _probable(looks, rates, guess)) if len(rates) > 2 else found


def _probable(looks: Sequence[Look], rates: Floats, guess: float) -> Floats:
    """Return the probability of each rate, whatever the power and the scatter."""
    logs = np.zeros((len(rates), len(POWERS), len(SCATTERS)))
    logs += -np.log1p((np.log(rates / guess) / WIDTH_OF_GUESS) ** 2)[:, None, None] + np.log(SCATTER_PRIOR)
    for look in looks:
        expected = np.log(look.per_s / rates)[:, None] * POWERS
        if look.allowed:
            logs += _likely_count(look, expected) + np.log(POWER_PRIOR_OF_COUNTS)[:, None]
            continue
        logs += np.log((1 - ODD) * _likely(look, expected[..., None]) + ODD / 4)
        if look.broke:
            logs += np.log(ODD_BREAK + (1 - ODD_BREAK) * ndtr(np.log(look.per_s / rates) / NEAR))[:, None, None]
    return np.asarray(np.exp(logs - logs.max()).sum(axis=(1, 2)))


def _likely(look: Look, expected: Floats) -> Floats:
    if abs(look.excess) >= CLEAR:
        beyond = expected - CLEAR if look.excess > 0 else -CLEAR - expected
        return np.asarray(ndtr(beyond / SCATTERS))
    deviation = (look.excess - expected) / SCATTERS
    return np.asarray(np.exp(-(deviation**2) / 2) / SCATTERS / math.sqrt(2 * math.pi))


def _likely_count(look: Look, expected: Floats) -> Floats:
    """Return the log-likelihood of a negative binomial, because misses come in clumps; without constant terms."""
    clumps = look.allowed * np.exp(np.minimum(expected, 20.0))[..., None] / (CLUMPS - 1)
    chances = gammaln(clumps + look.missed) - gammaln(clumps)
    return np.asarray(chances + look.missed * np.log(1 - 1 / CLUMPS) - clumps * np.log(CLUMPS))
