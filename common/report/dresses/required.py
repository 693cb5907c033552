"""The requirements of a result, as a part of a table and of JSON."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from common.report.judging.required import MET, MISSED, UNDECIDED, Judged
from common.report.words.required import HEADINGS, lines

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
            **dict(zip(("value", "low", "high"), _figures(one), strict=True)),
            "more_requests": one.more,
            "doubt": one.doubt,
        }
        for one in found
    ]


def _figures(one: Judged) -> list[float | None]:
    if one.known is None:
        return [None, None, None]
    told = (one.known.value, one.known.low, one.known.high)
    return [None if value is None or math.isinf(value) else value for value in told]
