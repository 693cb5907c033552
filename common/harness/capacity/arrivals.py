"""Arrivals: a Poisson process that is as bursty as one usually is.

What a queue makes of a few hundred arrivals depends on the few bursts that happen to be among them: its 99th
percentile is off by a factor of two more often than not. So many processes are drawn, and the one is taken from which
a queue with a constant time of service makes what it would make of an endless one, whatever its utilisation. That is
stratified sampling: it takes the luck out of the arrivals, and leaves that of the server in.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UTILISATIONS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94)
PERCENTS = (90.0, 95.0, 99.0)
DRAWN = 400  # of which one is taken
MOST_DRAWN = 200_000  # arrivals, of all that are drawn
FEWEST = 20  # arrivals, of which a percentile tells anything


def typical_arrivals(count: int, seed: Sequence[int]) -> Floats:
    """When so many come, in units of the mean time between two: rising, the first at 0 or later; the last before
    `count`."""
    draw = np.random.default_rng(seed)
    candidates = np.sort(draw.random((max(1, min(DRAWN, MOST_DRAWN // count)), count)), axis=1) * count
    if count < FEWEST:
        return np.asarray(candidates[0])
    return np.asarray(candidates[np.argmin(_atypical(candidates))])


def _atypical(candidates: Floats) -> Floats:
    """How far each one's percentiles are from those of an endless one, over all utilisations."""
    far = np.zeros(len(candidates))
    for busy in UTILISATIONS:
        waits = _waits(candidates, busy)
        for percent, waited in zip(PERCENTS, np.percentile(waits, PERCENTS, axis=1), strict=True):
            found = waited + busy
            far += np.log(found / (usual_wait(busy, percent) + busy)) ** 2
    return far


def _waits(arrivals: Floats, service: float) -> Floats:
    """How long each waits until its service begins (Lindley 1952, as a running maximum)."""
    work = service * np.arange(arrivals.shape[1]) - arrivals
    return np.asarray(work - np.minimum.accumulate(work, axis=1))


def usual_wait(busy: float, percent: float) -> float:
    """The percentile of the wait in M/D/1, for a unit of time between two arrivals: the exponential tail that it has.

    Exact in the limit; off by less than a hundredth beyond one time of service (Tijms, A First Course in Stochastic
    Models, 2003, section 9.6).
    """
    least, most = 1e-9, 50.0
    while most - least > 1e-9:  # the decay: busy * (e^x - 1) = x, for the time of service as unit
        middle = (least + most) / 2
        least, most = (least, middle) if busy * math.expm1(middle) > middle else (middle, most)
    share = (1 - busy) / (busy * math.exp(least) - 1)
    return busy * max(0.0, math.log(share / (1 - percent / 100)) / least)
