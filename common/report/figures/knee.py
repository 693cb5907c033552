"""The knee: the rate of arrivals at which a figure reaches its limit, from some looks at other rates.

A figure such as the 99th percentile grows with the rate as it does in a queue: slowly, then without bound; others, such
as pings, follow some power of it. Which of both it is the looks tell. What a queue would make of the very arrivals of a
look is computed (Lindley 1952), so that neither the luck of the arrivals nor that each look begins with an empty server
is taken for the server's own. Where requests are refused the percentile of the others says nothing until it is too
late: those that missed the limit are counted then, and their number follows a power of the rate. Where the knee is, how
full the server is there, and how far looks differ beside that, is estimated together: Bayes' rule on a grid, with
priors that say next to nothing. The interval has 19 of 20 parts of what is probable then.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

FULL_AT_KNEE = 1 - np.geomspace(0.015, 0.9, 30)
POWERS = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 40.0])  # of the rate, that a figure may follow
AS_POWER = 0.05  # as probable as that it is like that of a queue, before anything was seen
# Standard deviations of a look's logarithm; seven digits are more than enough for what is probable, and twice as quick.
SCATTERS = np.array([0.03, 0.06, 0.1, 0.16, 0.25, 0.4, 0.7], dtype=np.float32)
BUSY = np.concatenate([np.arange(0.01, 0.6, 0.03), np.arange(0.6, 1.3, 0.015), np.geomspace(1.3, 200, 30)])
USUAL_SCATTER = np.array([0.6, 0.8, 1.0, 1.0, 1.0, 1.0, 0.7])  # how probable each is before anything was seen
WIDTH_OF_GUESS = 0.4
CLUMPS = np.array([1.05, 1.3, 1.6, 2.0, 2.5, 4.0, 8.0])  # variance of a count as a part of its mean
USUAL_GROWTH = np.minimum(1.0, POWERS / 4)  # how probable each power is of what is refused, before anything was seen
CLEAR = math.log(6)  # beyond so many times the limit, or its part, a look only says on which side of the knee it is
# So much lies the median of short looks below the percentile of an endless one: long waits come in clusters.
SKEWED = np.minimum(1.8 * SCATTERS**2, 0.25)
ODD = 0.005  # of the looks say something else altogether
ODD_BREAK, NEAR = 0.01, 0.03  # so often a look breaks below the knee; and how near to it that is no wonder
POINTS = 240  # of the grid along the rates; a second, finer one follows
INTERVAL = (0.025, 0.975)
MOST_PERCENT = 99.9  # what stands for a maximum


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one rate."""

    per_s: float  # at the usual speed of the machine
    excess: float  # the logarithm of the figure as a part of its limit; infinite where it broke
    queue: Floats  # for each of BUSY the logarithm of what a queue makes of its arrivals, in mean times between two
    broke: bool = False  # whether so much missed the limit that it was ended: the knee lies below it
    missed: int = 0  # of its requests, how many missed the limit,
    allowed: float = 0.0  # and how many may; 0: the figure itself says more


def queue_of(due: Sequence[float] | Floats, percent: float, until: float = math.inf) -> Floats:
    """What queues that are so busy make of these arrivals, seen until then: the percentile, as `Look.queue` has it."""
    return _queue_of(np.asarray(due, dtype=np.float64).tobytes(), percent, until)


@lru_cache(100)  # a search asks for those of its looks again after each step
def _queue_of(due: bytes, percent: float, until: float) -> Floats:
    arrivals = np.frombuffer(due)
    if not len(arrivals):
        return np.asarray(np.log(BUSY))
    work = BUSY[:, None] * np.arange(len(arrivals)) - arrivals
    times = work - np.minimum.accumulate(work, axis=1) + BUSY[:, None]
    seen = np.minimum(times, until - arrivals)
    place = math.ceil(percent / 100 * (len(arrivals) - 1))
    seen.partition(place, axis=1)
    return np.asarray(np.log(seen[:, place]), dtype=np.float64)


@lru_cache(1000)
def usual_time(busy: float, percent: float) -> float:
    """The percentile of the time in M/D/1, with a unit of time between two arrivals: from the tail that it has.

    Off by less than a hundredth where it is longer than two services (Tijms, A First Course in Stochastic Models,
    2003, section 9.6).
    """
    least, most = 1e-9, 50.0
    while most - least > 1e-9:  # the decay: busy * (e^x - 1) = x, with the service as the unit of time
        middle = (least + most) / 2
        least, most = (least, middle) if busy * math.expm1(middle) > middle else (middle, most)
    share = (1 - busy) / (busy * math.exp(least) - 1)
    return busy * (1 + max(0.0, math.log(share / (1 - min(percent, MOST_PERCENT) / 100)) / least))


class Knee:
    """Where it may be, and how probable that is."""

    def __init__(self, rates: Floats, probable: Floats) -> None:
        self._rates, self._sums = rates, np.cumsum(probable) / probable.sum()

    def rate(self, share: float) -> float:
        """The rate below which the knee lies with so much probability."""
        return float(np.exp(np.interp(share, self._sums, np.log(self._rates))))

    def below(self, per_s: Floats) -> Floats:
        """How probable it is that it lies below each of these rates."""
        probable = np.interp(np.log(per_s), np.log(self._rates), self._sums, left=0.0, right=1.0)
        return np.asarray(probable, dtype=np.float64)

    @property
    def interval(self) -> tuple[float, float]:
        """Where it is in 19 of 20 cases."""
        return self.rate(INTERVAL[0]), self.rate(INTERVAL[1])


def knee(looks: Sequence[Look], percent: float, least: float, most: float, guess: float) -> Knee:
    """From all looks at one figure; the rates beyond `least` and `most` are not in question."""
    rates = np.geomspace(least, most, POINTS)
    probable = _probable(looks, percent, rates, guess)
    found = Knee(rates, probable)
    rates = np.geomspace(found.rate(0.0005) * 0.97, found.rate(0.9995) * 1.03, POINTS)
    rates = rates[(rates >= least * 0.999) & (rates <= most * 1.001)]
    return Knee(rates, _probable(looks, percent, rates, guess)) if len(rates) > 2 else found


def _probable(looks: Sequence[Look], percent: float, rates: Floats, guess: float) -> Floats:
    """Of each rate, whatever the shape and the scatter."""
    at_knee = np.log([usual_time(full, percent) for full in FULL_AT_KNEE])
    logs = np.zeros((len(rates), len(FULL_AT_KNEE) + len(POWERS), len(SCATTERS)))
    logs += -np.log1p((np.log(rates / guess) / WIDTH_OF_GUESS) ** 2)[:, None, None] + np.log(USUAL_SCATTER)
    logs[:, len(FULL_AT_KNEE) :] += math.log(AS_POWER * len(FULL_AT_KNEE) / len(POWERS))
    for one in looks:
        if one.allowed:
            logs[:, : len(FULL_AT_KNEE)] = -math.inf
            in_powers = np.log(one.per_s / rates)[:, None] * POWERS
            logs[:, len(FULL_AT_KNEE) :] += _likely_count(one, in_powers) + np.log(USUAL_GROWTH)[:, None]
            continue
        busy = one.per_s / rates[:, None] * FULL_AT_KNEE
        time = np.interp(np.log(busy), np.log(BUSY), one.queue) - math.log(one.per_s)
        in_a_queue = time - (at_knee - np.log(rates)[:, None])
        expected = np.hstack([in_a_queue, np.log(one.per_s / rates)[:, None] * POWERS])
        logs += np.log((1 - ODD) * _likely(one, expected.astype(np.float32)[..., None] - SKEWED) + ODD / 4)
        if one.broke:
            logs += np.log(ODD_BREAK + (1 - ODD_BREAK) * _normal(np.log(one.per_s / rates) / NEAR))[:, None, None]
    return np.asarray(np.exp(logs - logs.max()).sum(axis=(1, 2)))


def _likely(one: Look, expected: Floats) -> Floats:
    scatter = SCATTERS
    if abs(one.excess) >= CLEAR:
        beyond = (expected - CLEAR) / scatter if one.excess > 0 else (-CLEAR - expected) / scatter
        return _normal(beyond)
    return np.asarray(np.exp(-(((one.excess - expected) / scatter) ** 2) / 2) / scatter / math.sqrt(2 * math.pi))


def _likely_count(one: Look, expected: Floats) -> Floats:
    """Negative binomial, since what misses comes in clumps; the logarithm, without what is the same everywhere."""
    clumps = one.allowed * np.exp(np.minimum(expected, 20.0))[..., None] / (CLUMPS - 1)
    chances = _log_gamma(clumps + one.missed) - _log_gamma(clumps)
    return np.asarray(chances + one.missed * np.log(1 - 1 / CLUMPS) - clumps * np.log(CLUMPS))


def _log_gamma(x: Floats) -> Floats:
    """Of positive numbers: Stirling's series, eight steps farther (Abramowitz and Stegun 6.1.40)."""
    steps = sum(np.log(x + step) for step in range(8))
    far = x + 8
    return np.asarray((far - 0.5) * np.log(far) - far + 1 / (12 * far) - 1 / (360 * far**3) - steps)


def _normal(deviation: Floats) -> Floats:
    """The distribution function of the normal, to a thousandth (Abramowitz and Stegun 26.2.17)."""
    t = 1 / (1 + 0.2316419 * np.abs(deviation))
    tail = np.exp(-(deviation**2) / 2)
    series = 1.330274429 * t
    for factor in (-1.821255978, 1.781477937, -0.356563782, 0.319381530):
        series += factor
        series *= t
    tail *= series
    tail /= math.sqrt(2 * math.pi)
    return np.asarray(np.where(deviation > 0, 1 - tail, tail))
