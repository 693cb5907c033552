"""Requirements in words: each with its case, its outcome, and the measured interval."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.analysis.metric_value import MetricValue
from under_siege.analysis.threshold_check import MET, MISSED, UNDECIDED, Judged
from under_siege.report.labels import cases_of, full_name

HEADINGS = ("requirement", "outcome", "case", "measured (95 % interval)")


@dataclass(frozen=True, slots=True)
class Line:
    """The outcome of a requirement for one case."""

    requirement: str
    outcome: str
    name: str
    measured: str


def lines(found: Sequence[Judged]) -> list[Line]:
    """Return one line per requirement and case, grouped by requirement, missed ones first."""
    order = [MISSED, UNDECIDED, MET]
    texts = list(dict.fromkeys(one.goal.text for one in found))
    ordered = sorted(found, key=lambda one: (texts.index(one.goal.text), order.index(one.outcome)))
    cases = cases_of([one.case for one in found])
    return [Line(one.goal.text, one.outcome, full_name(one.case.case, cases), _measured(one)) for one in ordered]


def in_short(found: Sequence[Judged]) -> str:
    """Return how many were missed, undecided and met; empty without requirements."""
    counts = {outcome: sum(one.outcome == outcome for one in found) for outcome in (MISSED, UNDECIDED, MET)}
    told = [f"{count} {outcome}" for outcome, count in counts.items() if count]
    return f"Requirements: {', '.join(told)}." if told else ""


def _measured(one: Judged) -> str:
    told = _figures(one.known, one) if one.known else ""
    return "; ".join(filter(None, [told, one.doubt or _why_open(one)]))


def _figures(known: MetricValue, one: Judged) -> str:
    """Return the value with its interval: `33.9/s (31.5/s to 36.3/s)`."""
    value = amount(known.value, one) if known.value is not None else ""
    if known.low is None or known.high is None:
        return value or "not reached"
    if math.isinf(known.high):
        return value if value and known.value == known.low else f"more than {amount(known.low, one)}"
    base = " of base" if one.goal.of_base else ""
    return f"{value} ({amount(known.low, one)} to {amount(known.high, one)}){base}"


def _why_open(one: Judged) -> str:
    """Return why a requirement is undecided, and what would decide it."""
    if one.outcome != UNDECIDED:
        return ""
    if one.known is None:
        return "not measured for this case"
    if one.known.interval is None:
        return "no interval after one round; use --rounds 2 or more"
    if one.goal.figure.endswith("max_s"):
        return "the next request may take longer; require p99 instead"
    if one.goal.figure != "availability_pct":
        return "use more rounds"
    if one.more is None:
        return "at this rate of failures no number of requests would decide it"
    return f"{one.more:,} more requests like these would decide it"


def amount(value: float, one: Judged) -> str:
    """Return the figure with its unit, with enough digits to show on which side of the limit it is."""
    figure = one.goal.figure
    if one.goal.of_base:
        return f"{_exact(100 * value)} %"
    if figure == "rate_per_s":
        return f"{_exact(value)}/s"
    if figure == "of_ceiling":
        return f"{_exact(100 * value)} %"
    if figure == "availability_pct":
        return _availability(value)
    if figure == "memory_bytes":
        return f"{_exact(value / 1e6)} MB"
    return f"{_exact(1000 * value)} ms" if value < 0.9995 else f"{_exact(value)} s"


def _exact(value: float) -> str:
    return formatting.significant(value)


def _availability(value: float) -> str:
    """Return all leading nines and two more digits; never round up to 100 %."""
    if value >= 100:
        return "100 %"
    digits = max(2, 1 - math.floor(math.log10(100 - value)))
    return f"{math.floor(value * 10**digits) / 10**digits:.{digits}f} %"


_STYLES = {MET: "green", MISSED: "bold red", UNDECIDED: "yellow"}


def required_as_table(found: Sequence[Judged]) -> Iterator[RenderableType]:
    """A line for each; nothing where nothing was required."""
    if not found:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold", no_wrap=heading == HEADINGS[1])
    before = ""
    for line in lines(found):
        requirement, before = "" if line.requirement == before else line.requirement, line.requirement
        outcome = Text(line.outcome, style=_STYLES[line.outcome])
        table.add_row(Text(requirement), outcome, Text(line.name), Text(line.measured))
    yield Text()
    yield table


def required_as_data(found: Sequence[Judged]) -> list[dict[str, Any]]:
    """An object for each, with what identifies the case as in `cases`; null is what isn't known, or has no end.

    With `of_base` the figures are multiples of what the base had.
    """
    return [
        {
            "requirement": one.goal.text,
            "server": one.case.server,
            "task": one.case.task,
            "users": one.case.users,
            "python": one.case.python,
            "parameters": one.case.parameters,
            "outcome": one.outcome,
            "figure": one.goal.figure,
            "of_base": one.goal.of_base,
            **dict(zip(("value", "low", "high"), _required_figures(one), strict=True)),
            "more_requests": one.more,
            "doubt": one.doubt,
        }
        for one in found
    ]


def _required_figures(one: Judged) -> list[float | None]:
    if one.known is None:
        return [None, None, None]
    told = (one.known.value, one.known.low, one.known.high)
    return [None if value is None or math.isinf(value) else value for value in told]
