"""A capacity as a table for a terminal with small curves, as Markdown, and as data."""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from under_siege.capacity.capacity_result import Capacity, capacities
from under_siege.capacity.capacity_text import COLUMNS, cells, conclusion, footnote, names_of, per_s, time_of
from under_siege.capacity.step_metrics import Offered
from under_siege.model.record import Result
from under_siege.report.csv_export import as_cell
from under_siege.report.markdown_table import plain, row
from under_siege.report.split_table import fitting

_BLOCKS = "▁▂▃▄▅▆▇█"
_GAP, _CELL = 2, 9  # between two columns, and a rate with what was seen at it
_TALLEST_S, _LOWEST_S = 10.0, 0.001  # between which a curve is drawn, each block a step of the logarithm


def as_table(result: Result) -> RenderableType:
    """What each server can take, and below it how that came about."""
    found = capacities(result)
    told = (Text(f"{sentence}\n") for sentence in conclusion(found, result.left_out))
    return Group(*told, _Sheet(found), Text(), _Curves(found), Text(f"\n{footnote(result, found)}", style="dim"))


class _Sheet:
    """One table, or several where the terminal is too narrow for all columns."""

    def __init__(self, found: Sequence[Capacity]) -> None:
        self._rows = [(name, cells(one)) for name, one in zip(names_of(found), found, strict=True)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from fitting(console, options, len(COLUMNS), self._table)

    def _table(self, part: slice) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
        table.add_column("server", no_wrap=True)
        for column in COLUMNS[part]:
            table.add_column(column, justify="right", no_wrap=True)
        for name, texts in self._rows:
            table.add_row(Text(name), *map(Text, texts[part]))
        return table


class _Curves:
    """A row for each server: rates from left to right, the taller the longer; what misses its goal is marked.

    Several rows where the terminal is too narrow for all rates.
    """

    def __init__(self, found: Sequence[Capacity]) -> None:
        self._rows = [(name, one) for name, one in zip(names_of(found), found, strict=True) if one.steps]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=None, pad_edge=False, show_edge=False, padding=(0, _GAP, 0, 0), show_header=False)
        for _ in range(2):
            table.add_column(no_wrap=True)
        names = max((Text(name).cell_len for name, _ in self._rows), default=0)
        at_once = max(1, (options.max_width - names - _GAP) // _CELL - 1)  # the first cell says what it is
        for name, one in self._rows:
            for first in range(0, len(one.steps), at_once):
                for place, (what, text) in enumerate(_lines(one, one.steps[first : first + at_once])):
                    table.add_row(Text(name if not place and not first else ""), Text(f"{what:<{_CELL}}") + text)
        yield table


def _lines(one: Capacity, steps: Sequence[Offered]) -> Iterator[tuple[str, Text]]:
    yield "offered", Text("".join(per_s(step.per_s).rjust(_CELL) for step in steps))
    for what, kind in (("p99", "response"), ("ping p99", "ping")):
        limits = [goal.limit for goal in one.goals if goal.figure == f"{kind}_p99_s"]
        line = Text()
        for step in steps:
            value = step.percentile_s(kind, 99)
            missed = value is not None and any(value >= limit for limit in limits)
            line.append(f" {_short(value)}{_block(value)}".rjust(_CELL), style="red" if missed else "")
        yield what, line
    yield "goodput", Text("".join(per_s(step.good_per_s(one.in_time_s)).rjust(_CELL) for step in steps))


def _short(value: float | None) -> str:
    return "lost" if value == math.inf else time_of(value).replace(" ", "")


def _block(value: float | None) -> str:
    if value is None:
        return " "
    share = math.log(min(max(value, _LOWEST_S), _TALLEST_S) / _LOWEST_S) / math.log(_TALLEST_S / _LOWEST_S)
    return _BLOCKS[min(len(_BLOCKS) - 1, int(share * len(_BLOCKS)))]


def as_markdown(result: Result) -> str:
    """The same for a page of text."""
    found = capacities(result)
    lines = [row(["server", *COLUMNS]), row(["---"] + ["---:"] * len(COLUMNS))]
    for name, one in zip(names_of(found), found, strict=True):
        lines.append(row([plain(name), *map(plain, cells(one))]))
    told = "\n\n".join(plain(sentence) for sentence in conclusion(found, result.left_out))
    notes = "<br>".join(f"<sub>{plain(line)}</sub>" for line in footnote(result, found).splitlines())
    return "\n\n".join([told, "\n".join(lines), notes])


_STEP_COLUMNS = [
    "offered_per_s",
    "p50_s",
    "p99_s",
    "ping_p50_s",
    "ping_p99_s",
    "good_per_s",
    "cpu_s_per_transaction",
    "memory_bytes",
]


def as_csv(result: Result) -> str:
    """A line for each step of each server; what is not known, or was never answered, is left empty."""
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(["server", *_STEP_COLUMNS, "missed"])
    found = capacities(result)
    for name, one in zip(names_of(found), found, strict=True):
        for step in _steps(one):
            told = ["" if step[column] is None else step[column] for column in _STEP_COLUMNS]
            writer.writerow([as_cell(name), *told, as_cell("; ".join(step["missed"]))])
    return page.getvalue().rstrip("\n")


def _steps(one: Capacity) -> Iterator[dict[str, Any]]:
    for step in one.steps:
        times = {
            f"{prefix}p{percent}_s": _finite(step.percentile_s(kind, percent))
            for kind, prefix in (("response", ""), ("ping", "ping_"))
            for percent in (50, 99)
        }
        yield {
            "offered_per_s": step.per_s,
            **times,
            "good_per_s": step.good_per_s(one.in_time_s),
            "cpu_s_per_transaction": step.cpu_s,
            "memory_bytes": step.memory_bytes,
            "requests": len(step.waits_s),
            "missed": [goal.text for goal in one.missed_at(step)],
        }


def _finite(value: float | None) -> float | None:
    return None if value is None or value == math.inf else value


def as_data(result: Result) -> list[dict[str, Any]]:
    """For programs: an object for each server at each task; the keys are a contract."""
    return [_case(one) for one in capacities(result)]


def _case(one: Capacity) -> dict[str, Any]:
    at = one.at
    workers = next((step.record.workers for step in one.steps if step.record.workers), None)
    return {
        "server": one.case.server,
        "title": one.title,
        "task": one.case.task,
        "workers": workers,
        "python": one.case.python,
        "parameters": one.case.parameters,
        "verdict": one.verdict,
        "reasons": [{"code": "failed", "message": one.failure}] if one.failure else [],
        "capacity_per_s": {"holds": one.holds, "fails": one.fails},
        "goals": [goal.text for goal in one.goals],
        "breaks_first": one.breaks.text if one.breaks else None,
        "ceiling_per_s": one.ceiling_per_s,
        "of_ceiling": one.of_ceiling,
        "response_s": {"p99": _finite(at.percentile_s("response", 99)) if at else None},
        "ping_s": {"p99": _finite(at.percentile_s("ping", 99)) if at else None},
        "cpu_s_per_transaction": at.cpu_s if at else None,
        "memory_bytes": at.memory_bytes if at else None,
        "steps": list(_steps(one)),
    }
