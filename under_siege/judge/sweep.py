"""Analyse axes: differences from the first value, and trends of throughput and ping latency along a numeric axis.

The Universal Scalability Law (Gunther, Guerrilla Capacity Planning, 2007, chapters 4-5) is

    rate(N) = alone N / (1 + contention (N - 1) + coherency N (N - 1))

where `alone`, `contention` and `coherency` are Gunther's lambda, sigma and kappa. The law is fitted to the logarithms
of the rates, weighted by the inverse of their variances.

A difference is reported only if it exceeds two kinds of noise. It must be significant relative to the noise between
rounds, at the level for all differences together. It must also exceed every difference between identical cases with
different names, such as Python 3.14.5 and Python 3.14.5.0.
"""

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from packaging.version import InvalidVersion, Version

from common.errors import BadInputError
from under_siege.judge.estimates import (
    ACCURACY,
    CONFIDENCE,
    Estimate,
    beyond_f,
    chance_of,
    differ,
    level,
    ratio,
    student_at,
)
from under_siege.judge.estimators import Floats
from under_siege.judge.metrics import SPEED_CORRECTED
from under_siege.judge.ranking import Comparison
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import OK
from under_siege.record.case import Case, Value, axis

FEWEST_FOR_SCALING = 5  # minimum number of points: three to fit the parameters, and two more to test the fit
DOUBTED = 1 - CONFIDENCE
FEWEST = 3  # minimum number of points for finding a knee or an increase in ping latency
NO_NUMBERS = ("task", "path", "python", "keep_alive")


class Part(NamedTuple):
    """A parameter with its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scaling:
    """The Universal Scalability Law, fitted to a server's rates, and how far the rates deviate from the fit."""

    alone: Part  # rate per second at N = 1
    contention: Part  # sigma: waiting for a shared resource
    coherency: Part  # kappa: coordination between all pairs
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
        Part(value, value - margin, value + margin)
        for value, margin in zip(fitted.tolist(), margins.tolist(), strict=True)
    )
    off = logs - _log_rate(at, *fitted)
    free = len(numbers) - 3
    chance = beyond_f(free, degrees, float(np.sum((off / noise) ** 2)) / free)
    alone = Part(*(float(np.exp(log)) for log in alone))
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


@dataclass(frozen=True, slots=True)
class Line:
    """The `ok` cases of a server that differ only in their value on one numeric axis, in ascending order."""

    case: Case
    numbers: list[float]
    places: list[int]  # indices of the cases in the comparison
    rates: list[Estimate]
    pings: list[Estimate] | None  # ping p99 of each case; None if any is unknown

    @property
    def knows_noise(self) -> bool:
        """Return whether the noise between rounds is known; otherwise, no difference can be tested for significance."""
        return all(rate.degrees and rate.rounds > 1 for rate in self.rates)

    @property
    def knee(self) -> int | None:
        """Return the index of the first number beyond which no rate is significantly higher, or None if unknown."""
        return knee(self.rates) if self.knows_noise and len(self.rates) >= FEWEST else None

    @property
    def lost(self) -> float:
        """Return the fraction of the rate lost between the knee and the last number, or 0 if it is not significant."""
        place = self.knee
        if place is None or not differ(self.rates[-1], self.rates[place], _pairs(self.rates)):
            return 0.0
        return max(0.0, 1 - self.rates[-1].mean / self.rates[place].mean)

    @property
    def pings_grow(self) -> int | None:
        """Return the index of the lowest number at which pings are significantly slower than at the first, or None."""
        if self.pings is None or len(self.pings) < FEWEST or not all(ping.degrees for ping in self.pings):
            return None
        first, pairs = self.pings[0], len(self.pings) - 1
        longer = (place for place, ping in enumerate(self.pings) if ping.log > first.log and differ(ping, first, pairs))
        return next(longer, None)

    @property
    def scaling(self) -> Scaling | None:
        return scaling(self.numbers, self.rates) if self.knows_noise else None


@dataclass(frozen=True, slots=True)
class Sweep:
    """The lines of all servers along one axis, with the other axes of the load fixed."""

    along: str
    load: tuple[tuple[str, Value], ...]  # values on the other axes of the load
    lines: list[Line]


def number(value: Value | None) -> float | None:
    """Return a value on an axis as a number, or None if it is not numeric."""
    if isinstance(value, int):
        return float(value)
    return float(value) if value is not None and re.fullmatch(r"\d{1,15}(\.\d{1,15})?", value) else None


def axes_of_numbers(cases: Sequence[Case]) -> list[str]:
    """Return the axes that have several values, all of them numeric."""
    names = dict.fromkeys(name for case in cases for name, _ in case.values if name not in NO_NUMBERS)
    values = {name: {case.get(name) for case in cases} - {None} for name in names}
    return [name for name, of_axis in values.items() if len(of_axis) > 1 and None not in map(number, of_axis)]


def sweeps(comparison: Comparison) -> Iterator[Sweep]:
    """Yield a sweep for each numeric axis and each combination of values on the other axes of the load."""
    for along in axes_of_numbers([summary.case for summary in comparison.cases]):
        loads: dict[tuple[tuple[str, Value], ...], dict[Case, list[int]]] = {}
        for place, summary in enumerate(comparison.cases):
            if summary.case.get(along) is not None and summary.verdict == OK:
                rest = summary.case.without([along])
                loads.setdefault(rest.on(comparison.load_axes), {}).setdefault(rest, []).append(place)
        for load, places_of in loads.items():
            lines = [_line(comparison, along, places) for places in places_of.values()]
            if lines := [line for line in lines if len(line.numbers) > 1]:
                yield Sweep(along, load, lines)


def _line(comparison: Comparison, along: str, places: Sequence[int]) -> Line:
    cases = comparison.cases
    rates = comparison.measured["rate_per_s"]
    pings = comparison.measured["ping_p99_s"]
    known = [(number(cases[place].case.get(along)) or 0.0, place, rate) for place in places if (rate := rates[place])]
    known.sort(key=lambda point: point[0])
    ordered = [place for _, place, _ in known]
    known_pings = [ping for place in ordered if (ping := pings[place]) is not None]
    return Line(
        cases[(ordered or places)[0]].case,
        [at for at, _, _ in known],
        ordered,
        [rate for _, _, rate in known],
        known_pings if len(known_pings) == len(ordered) else None,
    )


def knee(rates: Sequence[Estimate]) -> int:
    """Return the first index after which no rate is significantly higher; it may be the last index."""
    for place, rate in enumerate(rates):
        if not any(other.log > rate.log and differ(other, rate, _pairs(rates)) for other in rates[place + 1 :]):
            return place
    return len(rates) - 1


def _pairs(rates: Sequence[Estimate]) -> int:
    return len(rates) * (len(rates) - 1) // 2


def told(along: str, value: float) -> str:
    """Format a value on an axis, such as `4 workers`."""
    return axis(along).label(int(value) if value == int(value) else f"{value:g}")


@dataclass(frozen=True, slots=True)
class Cell:
    """One case: its metrics, and their differences from the case with the first value of the axis."""

    summary: Summary
    figures: dict[str, float]  # speed-adjusted values, by metric
    differences: dict[str, float | None]  # relative differences, by metric; None if not significant


@dataclass(frozen=True, slots=True)
class Across:
    """A table with a column for each value of an axis, and a row for each set of cases that differ only on the axis."""

    axis: str
    values: list[Value]
    rows: dict[Case, dict[Value, Cell]]
    noise: dict[str, float]  # largest difference between identical cases, by metric


def across_of(comparison: Comparison, axis: str) -> Across:
    """Arrange the cases of a result in a table by their values on an axis.

    Raises:
        BadInputError: fewer than two values of the axis were measured.
    """
    cases = [summary.case for summary in comparison.cases]
    values = _in_order([value for case in cases if (value := case.get(axis)) is not None])
    if len(values) < 2:
        names = dict.fromkeys(name for case in cases for name, _ in case.values)
        known = [name for name in names if len({case.get(name) for case in cases}) > 1]
        expected = f"use one of {', '.join(known)}" if known else "none of its axes varies"
        raise BadInputError(f"this result has fewer than two values of {axis!r}; {expected}")
    noise = {name: largest for name in SPEED_CORRECTED if (largest := _noise(comparison, name, cases)) is not None}
    differences = _differences(comparison, cases, axis, values[0], noise)
    rows: dict[Case, dict[Value, Cell]] = {}
    for index, case in enumerate(cases):
        value = case.get(axis)
        if value is None or any(_are_the_same(case, other) and value == other.get(axis) for other in cases[:index]):
            continue
        measured = {name: comparison.measured[name][index] for name in SPEED_CORRECTED}
        figures = {name: estimate.mean for name, estimate in measured.items() if estimate is not None}
        own = {name: differences.get((name, index)) for name in SPEED_CORRECTED}
        rows.setdefault(case.without([axis]), {})[value] = Cell(comparison.cases[index], figures, own)
    return Across(axis, values, rows, noise)


def _differences(
    comparison: Comparison, cases: Sequence[Case], axis: str, first: Value, noise: dict[str, float]
) -> dict[tuple[str, int], float]:
    """Return the significant differences that exceed both `ACCURACY` and the noise, by metric and case index."""
    ratios: dict[tuple[str, int], Estimate] = {}
    for name in SPEED_CORRECTED:
        for index, case in enumerate(cases):
            base = Case(case.server, tuple((key, first if key == axis else value) for key, value in case.values))
            if base != case and base in cases and (change := _ratio(comparison, name, index, cases.index(base))):
                ratios[name, index] = change
    return {
        (name, index): float(np.expm1(change.log))
        for (name, index), change in ratios.items()
        if chance_of(change) < level(len(ratios))
        and abs(math.expm1(change.log)) > ACCURACY
        and abs(change.log) > math.log1p(noise.get(name, 0.0))
    }


def _noise(comparison: Comparison, name: str, cases: Sequence[Case]) -> float | None:
    """Return the largest difference between identical `ok` cases or, if there are none, between any identical cases."""
    pairs = [pair for pair in combinations(range(len(cases)), 2) if _are_the_same(*(cases[index] for index in pair))]
    for only_ok in (True, False):
        changes = [_ratio(comparison, name, *pair, only_ok=only_ok) for pair in pairs]
        if logs := [abs(change.log) for change in changes if change is not None]:
            return float(np.expm1(max(logs)))
    return None


def _ratio(comparison: Comparison, name: str, index: int, base: int, *, only_ok: bool = True) -> Estimate | None:
    """Return a metric of one case divided by that of another.

    Return None if either value is unknown or, with `only_ok`, if either case is not `ok`.
    """
    own, other = (comparison.measured[name][each] for each in (index, base))
    is_ok = comparison.cases[index].verdict == comparison.cases[base].verdict == OK
    return ratio(own, other) if own is not None and other is not None and (is_ok or not only_ok) else None


def _are_the_same(one: Case, other: Case) -> bool:
    """Return whether two cases have the same server and values, treating versions such as 3.14 and 3.14.0 as equal."""
    if one.server != other.server or [name for name, _ in one.values] != [name for name, _ in other.values]:
        return False
    pairs = zip(one.values, other.values, strict=True)
    return all(value == twin or _version(value) == _version(twin) is not None for (_, value), (_, twin) in pairs)


def _in_order(values: Sequence[Value]) -> list[Value]:
    """Return the distinct values, in ascending order if all are versions or numbers."""
    once = list(dict.fromkeys(values))
    known = {value: version for value in once if (version := _version(value)) is not None}
    return sorted(once, key=lambda value: (known[value], len(str(value)))) if len(known) == len(once) else once


def _version(value: Value) -> Version | None:
    try:
        return Version(str(value))
    except InvalidVersion:
        return None


def sweeps_as_data(comparison: Comparison) -> list[dict[str, Any]]:
    """Return how throughput changes along the numeric axes, with one JSON object for each `Line`.

    `knee` is the number beyond which throughput does not increase. `lost` is the fraction of throughput lost
    between the knee and the last number. `scaling` is the Universal Scalability Law, fitted to five or more points.
    `knee` and `scaling` are null if they are unknown.
    """
    return [
        {
            "along": sweep.along,
            "server": line.case.server,
            "values": dict(line.case.without([sweep.along]).values),
            "numbers": line.numbers,
            "rates_per_s": [rate.mean for rate in line.rates],
            "knee": None if line.knee is None else line.numbers[line.knee],
            "lost": line.lost,
            "scaling": line.scaling and _law(line.scaling),
        }
        for sweep in sweeps(comparison)
        for line in sweep.lines
    ]


def _law(law: Scaling) -> dict[str, Any]:
    parts = {name: getattr(law, name)._asdict() for name in ("alone", "contention", "coherency")}
    return {**parts, "fits": law.fits, "misfit": law.misfit, "peak": law.peak if law.fits else None}
