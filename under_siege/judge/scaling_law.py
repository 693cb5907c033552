"""Fit the Universal Scalability Law (Gunther, Guerrilla Capacity Planning, 2007, chapters 4-5) to measured rates:

    rate(N) = alone N / (1 + contention (N - 1) + coherency N (N - 1))

where `alone`, `contention` and `coherency` are Gunther's lambda, sigma and kappa. The law is fitted to the logarithms
of the rates, weighted by the inverse of their variances.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from under_siege.judge.estimates import (
    ACCURACY,
    CONFIDENCE,
    Estimate,
    beyond_f,
    student_at,
)
from under_siege.judge.estimators import Floats

FEWEST_FOR_SCALING = 5  # minimum number of points: three to fit the parameters, and two more to test the fit


DOUBTED = 1 - CONFIDENCE


class Parameter(NamedTuple):
    """A parameter with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """The Universal Scalability Law, fitted to a server's rates, and how far the rates deviate from the fit."""

    alone: Parameter  # rate per second at N = 1
    contention: Parameter  # sigma: waiting for a shared resource
    coherency: Parameter  # kappa: coordination between all pairs
    misfit: float  # largest relative deviation of a rate from the fit
    chance: float  # p-value of the lack-of-fit test

    @property
    def fits(self) -> bool:
        """Return whether the law fits: its misfit is at most `ACCURACY`, or not significant."""
        return self.chance >= DOUBTED or self.misfit <= ACCURACY

    @property
    def peak(self) -> float | None:
        """Return the number N at which the fitted law has its peak, or None if the peak is not significant."""
        sigma, kappa = self.contention.value, self.coherency
        return float(np.sqrt((1 - sigma) / kappa.value)) if kappa.low > 0 and sigma < 1 else None


def scaling(numbers: Sequence[float], rates: Sequence[Estimate]) -> Scaling | None:
    """Fit the law to the rates; return None if there are too few rates, their noise is unknown, or the fit fails."""
    is_noise_known = all(rate.degrees and rate.variance > 0 for rate in rates)
    if len(numbers) < FEWEST_FOR_SCALING or min(numbers) <= 0 or not is_noise_known:
        return None
    from scipy.optimize import curve_fit  # a slow import that few results need

    at, logs = np.asarray(numbers, dtype=float), np.asarray([rate.log for rate in rates])
    noise = np.sqrt([rate.variance for rate in rates])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # if the covariance is unknown, scipy warns and returns infinity
        try:
            fitted, covariance = curve_fit(
                _log_rate, at, logs, p0=_first_guess(at, logs), sigma=noise, absolute_sigma=True, maxfev=10_000
            )
        except (RuntimeError, ValueError):
            return None
    if not np.isfinite(covariance).all():
        return None
    degrees = min(rate.degrees for rate in rates)
    margins = student_at(degrees, (1 + CONFIDENCE) / 2) * np.sqrt(np.diag(covariance))
    alone, contention, coherency = (
        Parameter(value, value - margin, value + margin)
        for value, margin in zip(fitted.tolist(), margins.tolist(), strict=True)
    )
    off = logs - _log_rate(at, *fitted)
    free = len(numbers) - 3
    chance = beyond_f(free, degrees, float(np.sum((off / noise) ** 2)) / free)
    alone = Parameter(*(float(np.exp(log)) for log in alone))
    return Scaling(alone, contention, coherency, float(np.expm1(np.abs(off).max())), chance)


def _log_rate(at: Floats, log_alone: float, contention: float, coherency: float) -> Floats:
    slowed = 1 + contention * (at - 1) + coherency * at * (at - 1)
    log_rate: Floats = log_alone + np.log(at) - np.log(np.maximum(slowed, 1e-9))
    return log_rate


def _first_guess(at: Floats, logs: Floats) -> list[float]:
    """Return initial parameters from a linear least-squares fit of N / rate, which is a parabola in N."""
    columns = np.stack([np.ones_like(at), at - 1, at * (at - 1)], axis=1)
    weights = np.exp(logs) / at
    whole, *parts = np.linalg.lstsq(columns * weights[:, None], np.ones_like(at), rcond=None)[0].tolist()
    if whole <= 0:
        return [float(logs[0] - np.log(at[0])), 0.1, 0.0]
    return [float(-np.log(whole)), parts[0] / whole, parts[1] / whole]
