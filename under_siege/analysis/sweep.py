"""Analyse sweeps: how throughput and pings follow a numeric axis, where throughput stops growing, and its scaling law.

The Universal Scalability Law (Gunther, Guerrilla Capacity Planning, 2007, chapters 4-5: lambda, sigma and kappa) is

    rate(N) = alone N / (1 + contention (N - 1) + coherency N (N - 1))

It is fitted to the logarithms, each as exact as its rounds say.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from under_siege.analysis.report_data import Comparison
from under_siege.checks.verdict import OK
from under_siege.model.case import Case, Value, axis
from under_siege.stats.estimates import ACCURACY, CONFIDENCE, Estimate, beyond_f, differ, student_at

FEWEST_FOR_SCALING = 5  # points: three parameters, and something that can speak against them
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
    """Return the law through these points; None where they are too few, or know no noise, or can't be fitted."""
    if (
        len(numbers) < FEWEST_FOR_SCALING
        or min(numbers) <= 0
        or not all(one.degrees and one.variance > 0 for one in rates)
    ):
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


FEWEST = 3  # numbers, before a word is said of them
NO_NUMBERS = ("task", "path", "python", "keep_alive")


@dataclass(frozen=True, slots=True)
class Line:
    """A server along the axis, all else equal: the numbers, rising, and the cases at them that can be trusted."""

    case: Case  # the first of them
    numbers: list[float]
    places: list[int]  # of the cases in the comparison
    rates: list[Estimate]
    pings: list[Estimate] | None  # their 99th percentile; None where one is not known

    @property
    def knows_noise(self) -> bool:
        """Whether its rounds can tell a difference."""
        return all(one.degrees and one.rounds > 1 for one in self.rates)

    @property
    def knee(self) -> int | None:
        """The first number that none beyond it does more than, by more than noise; None if that can't be told."""
        return knee(self.rates) if self.knows_noise and len(self.rates) >= FEWEST else None

    @property
    def lost(self) -> float:
        """How much less it does at the last number than at the knee, as a fraction; 0 if that may be noise."""
        place = self.knee
        if place is None or not differ(self.rates[-1], self.rates[place], _pairs(self.rates)):
            return 0.0
        return max(0.0, 1 - self.rates[-1].mean / self.rates[place].mean)

    @property
    def pings_grow(self) -> int | None:
        """The first number at which pings are longer than at the least one, by more than noise; None if none is."""
        if self.pings is None or len(self.pings) < FEWEST or not all(one.degrees for one in self.pings):
            return None
        first = self.pings[0]
        longer = (place for place, one in enumerate(self.pings) if one.log > first.log)
        return next((place for place in longer if differ(self.pings[place], first, len(self.pings) - 1)), None)

    @property
    def scaling(self) -> Scaling | None:
        """The law that it follows, or does not."""
        return scaling(self.numbers, self.rates) if self.knows_noise else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """All servers along one axis, asked for the same otherwise."""

    along: str
    load: tuple[tuple[str, Value], ...]  # without that axis
    lines: list[Line]


def number(value: Value | None) -> float | None:
    """Of a value on an axis; None if it is none."""
    if isinstance(value, int):
        return float(value)
    return float(value) if value is not None and re.fullmatch(r"\d{1,15}(\.\d{1,15})?", value) else None


def axes_of_numbers(cases: Sequence[Case]) -> list[str]:
    """Return those along which there are several."""
    names = dict.fromkeys(name for case in cases for name, _ in case.values if name not in NO_NUMBERS)
    values = {name: {case.get(name) for case in cases} - {None} for name in names}
    return [name for name, found in values.items() if len(found) > 1 and all(number(one) is not None for one in found)]


def sweeps(comparison: Comparison) -> Iterator[Sweep]:
    """Along every axis of numbers, and for everything that is asked for besides."""
    cases = [one.case for one in comparison.cases]
    for along in axes_of_numbers(cases):
        loads: dict[tuple[tuple[str, Value], ...], dict[Case, list[int]]] = {}
        for place, case in enumerate(cases):
            if case.get(along) is not None and comparison.cases[place].verdict == OK:
                rest = case.without([along])
                loads.setdefault(rest.load, {}).setdefault(rest, []).append(place)
        for load, found in loads.items():
            lines = [_line(comparison, along, places) for places in found.values()]
            if lines := [one for one in lines if len(one.numbers) > 1]:
                yield Sweep(along, load, lines)


def _line(comparison: Comparison, along: str, places: Sequence[int]) -> Line:
    estimates = comparison.measured["rate_per_s"]
    known = {place: rate for place in places if (rate := estimates[place]) is not None}
    at = {place: number(comparison.cases[place].case.get(along)) or 0.0 for place in known}
    ordered = sorted(known, key=lambda place: at[place])
    pings = [one for place in ordered if (one := comparison.measured["ping_p99_s"][place]) is not None]
    return Line(
        comparison.cases[(ordered or places)[0]].case,
        [at[place] for place in ordered],
        ordered,
        [known[place] for place in ordered],
        pings if len(pings) == len(ordered) else None,
    )


def knee(rates: Sequence[Estimate]) -> int:
    """The first place that nothing behind it is better than by more than noise; the last one if it always grows."""
    for place, one in enumerate(rates):
        behind = (other for other in rates[place + 1 :] if other.log > one.log)
        if not any(differ(other, one, _pairs(rates)) for other in behind):
            return place
    return len(rates) - 1


def _pairs(rates: Sequence[Estimate]) -> int:
    return len(rates) * (len(rates) - 1) // 2


def told(along: str, value: float) -> str:
    """`4 workers`."""
    return axis(along).label(int(value) if value == int(value) else f"{value:g}")
