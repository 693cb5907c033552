"""Describe the outcome of each requirement for each case, with the measured interval."""

import math
from collections.abc import Sequence
from typing import Any

from under_siege.judge.metrics import METRICS
from under_siege.judge.requirement_check import MET, MISSED, UNDECIDED, Judged
from under_siege.judge.units import exact_share
from under_siege.show.case_names import CaseNames
from under_siege.show.view import Cell, Column, Row, Table, Tone, finite

HEADINGS = ("requirement", "outcome", "case", "measured (95 % interval)")


def _measured(judged: Judged) -> str:
    return "; ".join(filter(None, [_figures(judged), judged.doubt or _why_open(judged)]))


def _figures(judged: Judged) -> str:
    """Return the value with its interval, such as `33.9/s (31.5/s to 36.3/s)`, or an empty string if unknown."""
    known = judged.known
    if known is None:
        return ""
    value = amount(known.value, judged) if known.value is not None else ""
    if known.low is None or known.high is None:
        return value or "not reached"
    if math.isinf(known.high):
        return value if value and known.value == known.low else f"more than {amount(known.low, judged)}"
    base = " of base" if judged.goal.of_base else ""
    interval = f"{amount(known.low, judged)} to {amount(known.high, judged)}"
    return f"{value} ({interval}){base}" if value else interval


def _why_open(judged: Judged) -> str:
    """Return why a requirement is undecided, or how to decide it; if it is decided, return an empty string."""
    if judged.outcome != UNDECIDED:
        return ""
    if judged.known is None:
        return "not measured for this case"
    if judged.known.interval is None:
        return "no interval after one round; use --rounds 2 or more"
    if judged.goal.request and judged.known.value is None:
        return "the load tool does not say which requests were lost"
    if judged.goal.figure.endswith("max_s"):
        return "the next request may take longer; require p99 instead"
    if judged.goal.figure != "availability_pct":
        return "use more rounds"
    if judged.more is None:
        return "at this failure rate, more requests would not decide it"
    return f"{judged.more:,} more requests like these would decide it"


def amount(value: float, judged: Judged) -> str:
    """Format a value of the requirement's metric, with its unit and enough digits to compare it with the limit."""
    exact = exact_share if judged.goal.of_base else METRICS[judged.goal.figure].unit.exact
    return exact(value)


_TONES = {MET: Tone.GOOD, MISSED: Tone.WORST, UNDECIDED: Tone.WARNING}


def required_table(results: Sequence[Judged]) -> Table:
    """Return a table with a row for each requirement and case, grouped by requirement; each group begins with misses.

    It has no rows if there are no requirements.
    """
    order, texts = [MISSED, UNDECIDED, MET], list(dict.fromkeys(judged.goal.text for judged in results))
    names, rows = CaseNames(judged.case for judged in results), []
    for text in texts:
        of_requirement = [judged for judged in results if judged.goal.text == text]
        for index, judged in enumerate(sorted(of_requirement, key=lambda judged: order.index(judged.outcome))):
            cells = [Cell(text, in_terminal="" if index else None), Cell(judged.outcome, _TONES[judged.outcome])]
            rows.append(Row([*cells, Cell(names.full(judged.case.case)), Cell(_measured(judged))]))
    columns = [Column(heading, is_text=True) for heading in HEADINGS]
    counts = {outcome: sum(judged.outcome == outcome for judged in results) for outcome in order}
    counted = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    return Table("requirements", "Requirements", columns, rows, caption=[f"Requirements: {counted}."])


def required_as_data(results: Sequence[Judged]) -> list[dict[str, Any]]:
    """Return a dict for each requirement and case, to be encoded as JSON.

    Unknown and infinite values are `None`. If `of_base` is true, values are multiples of the base revision's value.
    """
    return [
        {
            "requirement": judged.goal.text,
            **{name: getattr(judged.case.case, name) for name in ("server", "task", "users", "python", "parameters")},
            "outcome": judged.outcome,
            "figure": judged.goal.figure,
            "of_base": judged.goal.of_base,
            **{name: finite(getattr(judged.known, name, None)) for name in ("value", "low", "high")},
            "more_requests": judged.more,
            "doubt": judged.doubt,
        }
        for judged in results
    ]
