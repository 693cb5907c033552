"""Find trends of throughput and ping latency along a numeric axis."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from under_siege.judge.estimates import (
    Estimate,
    differ,
)
from under_siege.judge.ranking import Comparison
from under_siege.judge.scaling_law import Scaling, scaling
from under_siege.judge.verdict_rules import OK
from under_siege.record.case import Case, Value

FEWEST = 3  # minimum number of points for finding a knee or an increase in ping latency
NO_NUMBERS = ("task", "path", "python", "keep_alive")


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
