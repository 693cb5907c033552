"""Describe requirements: each with its case, its outcome, and the measured interval."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.text import Text

from under_siege import formatting
from under_siege.analysis.metric_value import MetricValue
from under_siege.analysis.threshold_check import MET, MISSED, UNDECIDED, Judged
from under_siege.report.grid import markdown_table, plain, plain_table
from under_siege.report.labels import cases_of, full_name

HEADINGS = ("requirement", "outcome", "case", "measured (95 % interval)")


class ThresholdLine(NamedTuple):
    """The outcome of a requirement for one case."""

    requirement: str
    outcome: str
    name: str
    measured: str


def lines(found: Sequence[Judged]) -> list[ThresholdLine]:
    """Return one line per requirement and case, grouped by requirement, missed ones first."""
    order = [MISSED, UNDECIDED, MET]
    texts = list(dict.fromkeys(one.goal.text for one in found))
    ordered = sorted(found, key=lambda one: (texts.index(one.goal.text), order.index(one.outcome)))
    cases = cases_of([one.case for one in found])
    return [
        ThresholdLine(one.goal.text, one.outcome, full_name(one.case.case, cases), _measured(one)) for one in ordered
    ]


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
    if one.goal.of_base or figure == "of_ceiling":
        return f"{formatting.significant(100 * value)} %"
    if figure == "rate_per_s":
        return f"{formatting.significant(value)}/s"
    if figure == "availability_pct":
        return _availability(value)
    if figure == "memory_bytes":
        return f"{formatting.significant(value / 1e6)} MB"
    return f"{formatting.significant(1000 * value)} ms" if value < 0.9995 else f"{formatting.significant(value)} s"


def _availability(value: float) -> str:
    """Return all leading nines and two more digits; never round up to 100 %."""
    if value >= 100:
        return "100 %"
    digits = max(2, 1 - math.floor(math.log10(100 - value)))
    return f"{math.floor(value * 10**digits) / 10**digits:.{digits}f} %"


_STYLES = {MET: "green", MISSED: "bold red", UNDECIDED: "yellow"}


def required_as_table(found: Sequence[Judged]) -> Iterator[RenderableType]:
    """Yield a table with a line for each requirement and case; nothing without requirements."""
    if not found:
        return
    table = plain_table(1)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold", no_wrap=heading == "outcome")
    before = ""
    for line in lines(found):
        requirement, before = "" if line.requirement == before else line.requirement, line.requirement
        outcome = Text(line.outcome, style=_STYLES[line.outcome])
        table.add_row(Text(requirement), outcome, Text(line.name), Text(line.measured))
    yield Text()
    yield table


def required_as_markdown(found: Sequence[Judged]) -> str:
    """Return the same as Markdown; empty without requirements."""
    if not found:
        return ""
    rows = [
        [f"`{text}`", outcome if outcome == MET else f"**{outcome}**", plain(name), plain(measured)]
        for text, outcome, name, measured in lines(found)
    ]
    return f"{in_short(found)}\n\n{markdown_table(HEADINGS, rows, names=len(HEADINGS))}"


def required_as_data(found: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return an object for each, which names the case as `cases` does; null is unknown or infinite.

    With `of_base` the figures are multiples of those of the base.
    """
    return [
        {
            "requirement": one.goal.text,
            **{name: getattr(one.case, name) for name in ("server", "task", "users", "python", "parameters")},
            "outcome": one.outcome,
            "figure": one.goal.figure,
            "of_base": one.goal.of_base,
            **{name: _finite(getattr(one.known, name, None)) for name in ("value", "low", "high")},
            "more_requests": one.more,
            "doubt": one.doubt,
        }
        for one in found
    ]


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value
