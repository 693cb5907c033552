"""How a rate scales with a number, such as that of the workers: the Universal Scalability Law.

    rate(N) = alone N / (1 + contention (N - 1) + coherency N (N - 1))

(Gunther, Guerrilla Capacity Planning, 2007, chapter 4-5: lambda, sigma and kappa.) It is fitted to the logarithms, each
as exact as its rounds say.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from under_siege.stats.estimates import ACCURACY, CONFIDENCE, Estimate
from under_siege.stats.significance import beyond_f, student_at

FEWEST = 5  # points: three parameters, and something that can speak against them
DOUBTED = 1 - CONFIDENCE
Floats = NDArray[np.float64]


class Part(NamedTuple):
    """A parameter with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """The law as it was fitted, and how far the points are from it."""

    alone: Part  # per second, at N = 1
    contention: Part  # sigma: what waits for something that only one can have
    coherency: Part  # kappa: what each has to agree upon with every other
    misfit: float  # the largest distance of a point, as a fraction
    chance: float  # of a lack of fit as large as this one, where the law holds

    @property
    def fits(self) -> bool:
        """Whether what is off is no more than noise, or than our accuracy."""
        return self.chance >= DOUBTED or self.misfit <= ACCURACY

    @property
    def peak(self) -> float | None:
        """Where the rate is highest; None where it is not sure that there is such a place beyond 1."""
        sigma, kappa = self.contention.value, self.coherency
        return float(np.sqrt((1 - sigma) / kappa.value)) if kappa.low > 0 and sigma < 1 else None


def scaling(numbers: Sequence[float], rates: Sequence[Estimate]) -> Scaling | None:
    """The law through these points; None where they are too few, or know no noise, or can't be fitted."""
    if len(numbers) < FEWEST or min(numbers) <= 0 or not all(one.degrees and one.variance > 0 for one in rates):
        return None
    from scipy.optimize import curve_fit  # which takes a while to load, and few results need it

    at, logs = np.asarray(numbers, dtype=float), np.asarray([one.log for one in rates])
    noise = np.sqrt([one.variance for one in rates])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a covariance that can't be told: then it is infinite
        try:
            found, covariance = curve_fit(
                _log_rate, at, logs, p0=_first_guess(at, logs), sigma=noise, absolute_sigma=True, maxfev=10_000
            )
        except (RuntimeError, ValueError):
            return None
    if not np.isfinite(covariance).all():
        return None
    degrees = min(one.degrees for one in rates)
    margins = student_at(degrees, (1 + CONFIDENCE) / 2) * np.sqrt(np.diag(covariance))
    alone, *others = zip(found.tolist(), margins.tolist(), strict=True)
    off = logs - _log_rate(at, *found)
    free = len(numbers) - 3
    chance = beyond_f(free, degrees, float(np.sum((off / noise) ** 2)) / free)
    contention, coherency = (Part(value, value - margin, value + margin) for value, margin in others)
    low, value, high = (float(np.exp(alone[0] + way * alone[1])) for way in (-1, 0, 1))
    return Scaling(Part(value, low, high), contention, coherency, float(np.expm1(np.abs(off).max())), chance)


def _log_rate(at: Floats, log_alone: float, contention: float, coherency: float) -> Floats:
    slowed = 1 + contention * (at - 1) + coherency * at * (at - 1)
    found: Floats = log_alone + np.log(at) - np.log(np.maximum(slowed, 1e-9))
    return found


def _first_guess(at: Floats, logs: Floats) -> list[float]:
    """N / rate is a parabola in N."""
    columns = np.stack([np.ones_like(at), at - 1, at * (at - 1)], axis=1)
    weights = np.exp(logs) / at
    whole, *parts = np.linalg.lstsq(columns * weights[:, None], np.ones_like(at), rcond=None)[0].tolist()
    if whole <= 0:
        return [float(logs[0] - np.log(at[0])), 0.1, 0.0]
    return [float(-np.log(whole)), parts[0] / whole, parts[1] / whole]
