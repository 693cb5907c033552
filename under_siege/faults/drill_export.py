"""A drill as a table for a terminal, as Markdown, and as data."""

import csv
import io
import textwrap
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from under_siege.faults.drill_text import HEADINGS, conclusion, footnote, marked, table_of
from under_siege.faults.survival_marks import DEAD, HIDDEN, HURT, Cell, cells_of
from under_siege.model.record import Result
from under_siege.report.csv_export import as_cell
from under_siege.report.labels import with_name
from under_siege.report.markdown_table import plain, row
from under_siege.report.split_table import fitting

_WIDE = 23  # letters of a plain name beside each other: its cells have two lines, too
_STYLES = {HURT: "yellow", DEAD: "red", HIDDEN: "bold red"}


def as_table(result: Result) -> RenderableType:
    """Who survives what: a row for each server, a column for each fault."""
    cells = cells_of(result)
    told = (Text(f"{sentence}\n") for sentence in conclusion(cells, result.left_out))
    return Group(*told, _Matrix(cells), Text(f"\n{_footnote(result)}", style="dim"))


def _footnote(result: Result) -> str:
    rounds = max((one.round for one in result.incidents), default=1)
    machine = result.environment
    return f"{footnote(rounds)}\n{machine.usable_cpus} CPUs · Python {', '.join(machine.pythons)} · seed {result.seed}"


class _Matrix:
    """One table, or several where the terminal is too narrow for all columns."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._faults, self._rows = table_of(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from fitting(console, options, len(self._faults), self._table)

    def _table(self, part: slice) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
        table.add_column("server", no_wrap=True)
        for fault in self._faults[part]:
            table.add_column("\n".join(HEADINGS[fault]), justify="right", no_wrap=True)
        for plain_name, name, cells in self._rows:
            names = dict.fromkeys([*textwrap.wrap(plain_name, max(_WIDE, len(name))), name])
            table.add_row(Text("\n".join(names)), *map(_text, cells[part]))
            table.add_row()
        return table


def _text(cell: Cell | None) -> Text:
    return Text("\n".join(filter(None, marked(cell))), style=_STYLES.get(cell.mark, "")) if cell else Text()


def as_markdown(result: Result) -> str:
    """The same for a page of text."""
    cells = cells_of(result)
    faults, rows = table_of(cells)
    lines = [
        row(["server", *(f"{HEADINGS[fault][0]}: {', '.join(HEADINGS[fault][1:])}" for fault in faults)]),
        row(["---"] + ["---:"] * len(faults)),
    ]
    for plain_name, name, found in rows:
        texts = ["; ".join(filter(None, marked(one))) if one else "" for one in found]
        lines.append(row([plain(with_name(plain_name, name)), *map(plain, texts)]))
    told = "\n\n".join(plain(sentence) for sentence in conclusion(cells, result.left_out))
    notes = "<br>".join(f"<sub>{plain(line)}</sub>" for line in _footnote(result).splitlines())
    return "\n\n".join([told, "\n".join(lines), notes])


def as_csv(result: Result) -> str:
    """A line for each figure of each cell; what was never reached is left empty."""
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(["server", "fault", "figure", "value", "mark"])
    for cell in cells_of(result):
        for name, value in cell.drilled.figures.items():
            told = "" if value is None else value
            writer.writerow([as_cell(cell.drilled.case.server), cell.drilled.fault, name, told, cell.mark])
    return page.getvalue().rstrip("\n")


def as_data(result: Result) -> list[dict[str, Any]]:
    """For programs: an object for each cell; the keys are a contract."""
    return [
        {
            "server": one.drilled.case.server,
            "parameters": {**dict(one.drilled.case.values)},
            "fault": one.drilled.fault,
            "figures": one.drilled.figures,
            "mark": one.mark or None,
            "why_not": one.drilled.failure or one.drilled.without or None,
        }
        for one in cells_of(result)
    ]
