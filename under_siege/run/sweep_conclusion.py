"""Describe how throughput and pings change along a numeric axis, in sentences and for JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from under_siege import formatting
from under_siege.formatting import listed
from under_siege.judge.ranking import Comparison
from under_siege.judge.scaling_law import Parameter, Scaling
from under_siege.judge.sweep import Line, Sweep, sweeps
from under_siege.record.case import axis
from under_siege.show.case_names import MOST_NAMES, CaseNames, in_words


def sweep_sentences(comparison: Comparison) -> Iterator[str]:
    """Yield a paragraph for each numeric axis and load, unless there is nothing to report."""
    for sweep in sweeps(comparison):
        if sentences := [*_of_sweep(sweep, comparison)]:
            names = [name for name, _ in sweep.load if len({case.case.get(name) for case in comparison.cases}) > 1]
            load = in_words(sweep.lines[0].case, names)
            yield " ".join([f"More {sweep.along}{f' ({load})' if load else ''}:", *sentences])


def _of_sweep(sweep: Sweep, comparison: Comparison) -> Iterator[str]:
    names = CaseNames(comparison.cases)
    named = [(line, names.name(line.case, without=[sweep.along])) for line in sweep.lines]
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
            names = listed([name for _, name in ended], MOST_NAMES)
            rates = formatting.span(
                sorted(line.rates[line.knee or 0].mean for line, _ in ended), lambda rate: f"{formatting.rate(rate)}/s"
            )
            yield f"throughput of {names} does not grow beyond {_told(along, at)} ({rates})"
        if going := [name for number, line, name in known if number == at == line.numbers[-1]]:
            names = listed(going, MOST_NAMES)
            yield f"throughput of {names} still grows at {_told(along, at)}, the end of the measured range"


def _of_line(line: Line, name: str, along: str) -> Iterator[str]:
    if line.lost:
        yield f"At {_told(along, line.numbers[-1])}, throughput of {name} has fallen by {formatting.share(line.lost)}."
    grown = line.pings_grow
    if grown is not None and line.pings is not None:
        first, then, last = (formatting.seconds(line.pings[place].mean) for place in (0, grown, -1))
        values = f"{first}, {then} ... {last}" if grown < len(line.pings) - 1 else f"{first}, {then}"
        yield f"From {_told(along, line.numbers[grown])} on, pings to {name} get slower (p99: {values})."


def _of_laws(named: Sequence[tuple[Line, str]], along: str) -> Iterator[str]:
    """Yield a sentence for each server that follows the scaling law, and one about all servers that do not."""
    laws = [(law, line, name) for line, name in named if (law := line.scaling) is not None]
    for law, line, name in laws:
        if law.fits:
            parts = f"σ = {_part(law.contention)}, κ = {_part(law.coherency)}"
            end = _peak(law, along, line.numbers[-1])
            yield f"{name} follows the Universal Scalability Law with {parts}{end}."
    if others := [(law.misfit, name) for law, _, name in laws if not law.fits]:
        do, off = "does" if len(others) == 1 else "do", formatting.share(max(others)[0])
        names = listed([name for _, name in others], MOST_NAMES)
        yield f"{names} {do} not follow the Universal Scalability Law: the largest deviation ({off}) is significant."


def _peak(law: Scaling, along: str, last: float) -> str:
    if law.peak is None or law.peak < 1:
        return ""
    beyond = ", beyond the measured range" if law.peak > last else ""
    return f", with its peak at {formatting.significant(law.peak, 2)} {along}{beyond}"


def _part(part: Parameter) -> str:
    value, low, high = (f"{value:.2g}" if value >= 1e-9 else "0" for value in part)
    return f"{value} ({low} to {high})"


def _told(along: str, value: float) -> str:
    """Format a value on an axis, such as `4 workers`."""
    return axis(along).label(int(value) if value == int(value) else f"{value:g}")


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
