"""Render tables in every format, and define the columns of the comparison."""

import csv
import io
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.analysis.summary import Interval, Latency, Speed, Summary
from under_siege.model.case import Case
from under_siege.report.case_names import varying

UNLIMITED = 10_000  # columns of a terminal

NO_SERVER = "bare"  # the server of the ceiling in result files
MARK = "→"  # beside the rank of the recommended case
STYLES = {"failed": "red", "suspect": "yellow", "unclear": "yellow"}
CellText = Callable[[Summary], str]


class TableCell(NamedTuple):
    """A table cell, with its style in a terminal and in Markdown."""

    text: str
    style: str = ""  # in a terminal
    is_strong: bool = False  # in Markdown
    in_terminal: str | None = None  # the text in a terminal, if it differs

    def as_markdown(self) -> str:
        return f"**{plain(self.text)}**" if self.is_strong else plain(self.text)


class Heading(NamedTuple):
    """The heading of a column of figures."""

    name: str
    in_terminal: str = ""  # a leading line break: the first line is that of the column before


@dataclass(frozen=True, slots=True)
class Grid:
    """A table with names on the left and figures on the right.

    A terminal that is too narrow shows several tables: no figure is ever cut.
    """

    names: Sequence[str]  # headings
    figures: Sequence[Heading]
    rows: Sequence[Sequence[TableCell]]
    gap: int = 1
    is_spaced: bool = False  # a blank line after each row

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
            # A heading over several columns is repeated if a new table begins between them.
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
    """Return a table of cells that are Markdown already; all columns after the names are aligned to the right."""
    rules = ["---"] * names + ["---:"] * (len(headings) - names)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rules, *rows))


def plain(text: str) -> str:
    """Return text that reads the same in Markdown."""
    one_line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\|*\[\]`~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", one_line)


def small_print(lines: Iterable[str]) -> str:
    return "<br>".join(f"<sub>{plain(line)}</sub>" for line in lines)


CsvValue = str | float | None


def rows_as_csv(headings: Sequence[str], rows: Iterable[Sequence[CsvValue]]) -> str:
    """Return the rows as CSV; unknown values are empty, and no text is mistaken for a formula."""
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(headings)
    writer.writerows(map(_harmless, row) for row in rows)
    return page.getvalue().rstrip("\n")


def _harmless(value: CsvValue) -> CsvValue:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


@dataclass(frozen=True, slots=True)
class Column:
    """A metric of the summary with its name and format; the cell is empty if a case does not have it."""

    name: str
    in_terminal: str  # its heading in two lines, as in `Heading`
    text: CellText
    figure: str = ""  # its name in `Summary.best`; empty if "best" has no meaning
    is_wide: bool = False  # whether a terminal shows it only with --wide
    margin: CellText | None = None  # half the width of its confidence interval

    @property
    def heading(self) -> Heading:
        return Heading(self.name, self.in_terminal)

    def cell(self, summary: Summary) -> TableCell:
        """Return the figure of one case; best if none is significantly better, but one is significantly worse."""
        text = self.text(summary)
        if self.margin and (margin := self.margin(summary)):
            text = f"{text} ± {margin}"
        if self.figure in summary.best:  # the star is for readers who can't see bold letters
            return TableCell(text, "bold green", is_strong=True, in_terminal=f"{text}*")
        return TableCell(text, STYLES.get(summary.verdict, ""), in_terminal=f"{text} " if self.figure else text)


def _figure(value: Callable[[Summary], float | None], text: Callable[[float], str]) -> CellText:
    """Return a format for a figure that may be missing."""
    return lambda summary: "" if (known := value(summary)) is None else text(known)


def _field(name: str, text: Callable[[float], str]) -> CellText:
    return _figure(lambda summary: getattr(summary, name), text)


def _mean(name: str, text: Callable[[float], str]) -> CellText:
    def value(summary: Summary) -> float | None:
        interval: Interval | Speed | None = getattr(summary, name)
        return None if interval is None else interval.mean

    return _figure(value, text)


def _latency(name: str, percentile: str) -> CellText:
    """Return a format for a percentile, or for its lower bound if it was not reached."""

    def text(summary: Summary) -> str:
        latency: Latency | None = getattr(summary, name)
        if latency is None:
            return ""
        value: float | None = getattr(latency, percentile)
        return f"> {formatting.seconds(latency.max)}" if value is None else formatting.seconds(value)

    return text


def half_width(summary: Summary) -> float | None:
    """Return half the width of the interval of the rate, in transactions per second."""
    rate = summary.rate_per_s
    return None if rate is None or rate.high is None or rate.low is None else (rate.high - rate.low) / 2


def _workers(summary: Summary) -> str:
    """Return the number the server reports, or else the one it was started with."""
    return str(summary.workers or summary.case.get("workers") or "")


_RATE = _figure(lambda summary: summary.usual_rate_per_s or None, formatting.rate)
_CPU = _field("cpu_s_per_transaction", formatting.seconds)
COLUMNS = (
    Column("trans/s", "trans/s", _RATE, "rate_per_s", margin=_figure(half_width, formatting.margin)),
    Column("of ceiling", "of\nceiling", _mean("of_ceiling", formatting.share)),
    Column("availability", "avail-\nability", _field("availability_pct", formatting.percent)),
    Column("response p50", "response\np50", _latency("response_s", "p50"), "response_p50_s"),
    Column("response p99", "\np99", _latency("response_s", "p99"), "response_p99_s"),
    Column("ping p50", "ping\np50", _latency("ping_s", "p50"), "ping_p50_s", is_wide=True),
    Column("ping p99", "ping\np99", _latency("ping_s", "p99"), "ping_p99_s"),
    Column("memory", "memory", _field("memory_bytes", formatting.megabytes), "memory_bytes"),
    Column("workers", "workers", _workers, is_wide=True),
    Column("CPU per trans", "CPU per\ntrans", _CPU, "cpu_s_per_transaction", is_wide=True),
    Column("as measured", "as\nmeasured", _mean("rate_per_s", formatting.rate), is_wide=True),
    Column("speed", "speed", _mean("speed", formatting.share), is_wide=True),
    Column("ready", "ready\nafter", _field("ready_s", formatting.seconds), is_wide=True),
)


def columns_for(shown: Sequence[Summary], *, wide: bool = False) -> list[Column]:
    """Return the columns in which at least one case has a figure.

    Unless `wide`, these are only the most important ones, and `workers` if the cases differ in it.
    """
    differing = varying([summary.case for summary in shown])
    return [
        column
        for column in COLUMNS
        if (wide or not column.is_wide or column.name in differing) and any(map(column.text, shown))
    ]


def rank_of(summary: Summary, recommended: Collection[Case]) -> TableCell:
    """Return the rank, with a mark if the case is recommended."""
    rank = str(summary.rank or "")
    return TableCell(f"{MARK} {rank}", "bold green") if summary.case in recommended else TableCell(rank)


def name_in_table(summary: Summary, ceilings: Sequence[Summary]) -> str:
    """Return the name of the server, or which row is the ceiling."""
    if summary not in ceilings:
        return summary.server
    return "ceiling" if summary.server == NO_SERVER else f"{summary.server} (ceiling)"
