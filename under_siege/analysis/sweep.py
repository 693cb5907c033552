"""Sweeps: what becomes of a server along an axis of numbers, and beyond which of them nothing is gained."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from under_siege.analysis.report_data import Comparison
from under_siege.checks.verdict import OK
from under_siege.model.case import Case, Value, axis
from under_siege.stats.estimates import Estimate, differ
from under_siege.stats.scaling import Scaling, scaling

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
    """Those along which there are several."""
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
    return axis(along).told(int(value) if value == int(value) else f"{value:g}")
