"""Describe how throughput and pings change along a numeric axis, in sentences and as data."""

from collections.abc import Iterator, Sequence
from typing import Any

from under_siege import formatting
from under_siege.analysis.report_data import Comparison
from under_siege.analysis.sweep import Line, Part, Scaling, Sweep, sweeps, told
from under_siege.formatting import listed
from under_siege.report.conclusion import MOST_NAMES
from under_siege.report.labels import cases_of, in_words, name_of


def in_sentences(comparison: Comparison) -> Iterator[str]:
    """Yield a paragraph for each axis and load with a finding."""
    for sweep in sweeps(comparison):
        if sentences := [*of_sweep(sweep, comparison)]:
            load = in_words(sweep.lines[0].case, [name for name, _ in sweep.load if _differs(name, comparison)])
            yield " ".join([f"More {sweep.along}{f', {load}' if load else ''}:", *sentences])


def of_sweep(sweep: Sweep, comparison: Comparison) -> Iterator[str]:
    cases = cases_of(comparison.cases)
    named = [(line, name_of(line.case, cases, without=[sweep.along])) for line in sweep.lines]
    if knees := "; ".join(_knees(named, sweep.along)):
        yield f"{knees}."
    for line, name in named:
        yield from _of_line(line, name, sweep.along)
    yield from _of_laws(named, sweep.along)


def _knees(named: Sequence[tuple[Line, str]], along: str) -> Iterator[str]:
    known = [(line.numbers[line.knee], line, name) for line, name in named if line.knee is not None]
    for at in sorted({at for at, _, _ in known}):
        ended = [(line, name) for number, line, name in known if number == at and line.numbers[-1] > at]
        if ended:
            names, rates = listed([name for _, name in ended], MOST_NAMES), _knee_rates([line for line, _ in ended])
            yield f"beyond {told(along, at)} throughput does not grow with {names} ({rates})"
        if going := [name for number, line, name in known if number == at == line.numbers[-1]]:
            names = listed(going, MOST_NAMES)
            yield f"with {names} throughput grows up to {told(along, at)}, the most that was measured"


def _of_line(line: Line, name: str, along: str) -> Iterator[str]:
    if line.lost:
        yield f"At {told(along, line.numbers[-1])} throughput of {name} is {formatting.share(line.lost)} lower."
    grown = line.pings_grow
    if grown is not None and line.pings is not None:
        first, then, last = (formatting.seconds(line.pings[place].mean) for place in (0, grown, -1))
        values = f"{first}, {then} ... {last}" if grown < len(line.pings) - 1 else f"{first}, {then}"
        yield f"Pings of {name} grow from {told(along, line.numbers[grown])} on ({values}, p99)."


def _of_laws(named: Sequence[tuple[Line, str]], along: str) -> Iterator[str]:
    """Yield the parameters of the law for servers that follow it, and the misfit of those that do not."""
    laws = [(law, line, name) for line, name in named if (law := line.scaling) is not None]
    for law, line, name in laws:
        if law.fits:
            parts = f"σ = {_part(law.contention)}, κ = {_part(law.coherency)}"
            end = _peak(law, along, line.numbers[-1])
            yield f"{name} follows the Universal Scalability Law with {parts}{end}."
    if others := [(law.misfit, name) for law, _, name in laws if not law.fits]:
        do, off = "does" if len(others) == 1 else "do", formatting.share(max(others)[0])
        names = listed([name for _, name in others], MOST_NAMES)
        yield f"{names} {do} not follow the Universal Scalability Law: a point is {off} off, which is significant."


def _peak(law: Scaling, along: str, last: float) -> str:
    if law.peak is None or law.peak < 1:
        return ""
    beyond = ", beyond the measured range" if law.peak > last else ""
    return f", with its peak at {formatting.significant(law.peak, 2)} {along}{beyond}"


def _part(part: Part) -> str:
    """Return a parameter with its interval; negative values are shown as 0."""
    value, low, high = (_small(max(0.0, value)) for value in part)
    return f"{value} ({low} to {high})"


def _small(value: float) -> str:
    return "0" if value < 1e-9 else f"{value:.2g}"


def _knee_rates(lines: list[Line]) -> str:
    rates = sorted(line.rates[line.knee or 0].mean for line in lines)
    return formatting.span(rates, lambda rate: f"{formatting.rate(rate)}/s")


def _differs(name: str, comparison: Comparison) -> bool:
    return len({case.case.get(name) for case in comparison.cases}) > 1


def sweeps_as_data(comparison: Comparison) -> list[dict[str, Any]]:
    """Return an object for each server along each numeric axis; unknown values are null.

    `knee` is the number beyond which throughput does not increase, `lost` the fraction that is lost at the last
    number, `scaling` the Universal Scalability Law, fitted to five or more points.
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
