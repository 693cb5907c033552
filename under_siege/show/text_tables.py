"""Render tables for terminals, as Markdown and as CSV."""

import csv
import io
import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

UNLIMITED = 10_000  # width of a terminal that never wraps lines


class TableCell(NamedTuple):
    """A table cell, with its style in a terminal and in Markdown."""

    text: str
    style: str = ""  # style in a terminal
    is_strong: bool = False  # whether Markdown shows it in bold
    in_terminal: str | None = None  # the text in a terminal, if it differs from `text`

    def as_markdown(self) -> str:
        return f"**{plain(self.text)}**" if self.is_strong else plain(self.text)


class Heading(NamedTuple):
    """The heading of a column of figures."""

    name: str
    in_terminal: str = ""  # if it begins with a line break, the first line of the previous heading applies, too


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with names on the left and figures on the right.

    On a narrow terminal, the grid is split into several tables, so no figure is cut off.
    """

    names: Sequence[str]  # headings of the columns with names
    figures: Sequence[Heading]
    rows: Sequence[Sequence[TableCell]]
    gap: int = 1
    is_spaced: bool = False  # whether a blank line follows each row

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        count, unlimited, tables = len(self.figures), options.update_width(UNLIMITED), list[Table]()
        for parts in range(1, count + 1):
            edges = [round(part * count / parts) for part in range(parts + 1)]
            tables = [self._table(slice(*both)) for both in itertools.pairwise(edges)]
            if max(Measurement.get(console, unlimited, table).maximum for table in tables) <= options.max_width:
                break
        for index, table in enumerate(tables):
            yield from ([Text()] if index else [])
            yield table

    def _table(self, part: slice) -> Table:
        table = plain_table(self.gap)
        for name in self.names:
            table.add_column(name, no_wrap=True)
        for index, (name, heading) in enumerate(self.figures[part]):
            # If a table begins between the columns of a shared heading, the full heading is repeated.
            is_apart = not index and heading.startswith("\n")
            table.add_column(name.replace(" ", "\n") if is_apart else heading or name, justify="right", no_wrap=True)
        for row in self.rows:
            cells = [*row[: len(self.names)], *row[len(self.names) :][part]]
            table.add_row(
                *(Text(cell.text if cell.in_terminal is None else cell.in_terminal, cell.style) for cell in cells)
            )
            if self.is_spaced:
                table.add_row()
        return table

    def as_markdown(self) -> str:
        headings = [*self.names, *(heading.name for heading in self.figures)]
        rows = [[cell.as_markdown() for cell in row] for row in self.rows]
        return markdown_table(list(map(plain, headings)), rows, names=len(self.names))


def plain_table(gap: int) -> Table:
    return Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, gap, 0, 0))


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]], names: int) -> str:
    """Return a Markdown table of cells that are already Markdown; only the first `names` columns are left-aligned."""
    rules = ["---"] * names + ["---:"] * (len(headings) - names)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rules, *rows))


def plain(text: str) -> str:
    """Return the text on one line, with the special characters of Markdown and HTML escaped."""
    one_line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|*\[\]`~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", one_line)


def small_print(lines: Iterable[str]) -> str:
    return "<br>".join(f"<sub>{plain(line)}</sub>" for line in lines)


CsvValue = str | float | None


def rows_as_csv(headings: Sequence[str], rows: Iterable[Sequence[CsvValue]]) -> str:
    """Return the rows as CSV, with text escaped so that spreadsheets don't interpret it as a formula."""
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(map(_harmless, row) for row in rows)
    return page.getvalue().rstrip("\n")


def _harmless(value: CsvValue) -> CsvValue:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
