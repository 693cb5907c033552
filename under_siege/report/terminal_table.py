"""The comparison as a table in the terminal."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from under_siege.analysis.report_data import Comparison, summarize
from under_siege.analysis.summary import Summary
from under_siege.analysis.threshold_check import judged
from under_siege.checks.verdict import FAILED
from under_siege.model.record import Result
from under_siege.report.columns import Cell, Column, columns_for, figures, is_corrected
from under_siege.report.conclusion import conclusion
from under_siege.report.footnote import footnote
from under_siege.report.labels import across, at, cases_of, columned, varying
from under_siege.report.load_matrix import LEGEND, Matrix
from under_siege.report.notes import flags, notes
from under_siege.report.split_table import fitting
from under_siege.report.sweep_text import in_sentences
from under_siege.report.threshold_text import required_as_table

_STYLES = {"failed": "red", "suspect": "yellow", "unclear": "yellow"}


def as_table(result: Result, *, corrected: bool = True) -> RenderableType:
    """What the comparison says, its figures, what is wrong with them, and how it was made."""
    comparison = summarize(result, corrected=corrected)
    if not comparison.cases and not comparison.ceilings:
        return Group(Text("Nothing was measured."), *_notes(result, comparison))
    return Group(
        *(Text(f"{paragraph}\n") for paragraph in (*conclusion(comparison), *in_sentences(comparison))),
        *_figures(comparison),
        *_failed(comparison.cases),
        *required_as_table(judged(result, comparison)),
        *_flags(comparison),
        *_notes(result, comparison),
        Text(f"\n{footnote(result, comparison)}", style="dim"),
    )


def _figures(comparison: Comparison) -> Iterator[RenderableType]:
    """All cases that have numbers; of several loads, or along two axes, at a glance."""
    if across(cases_of(comparison.cases)):
        yield Matrix(comparison)
        speed = " (speed-adjusted)" if is_corrected(comparison.cases) else ""
        yield Text(f"{LEGEND.format(speed)}; for all figures use --format markdown, csv or html", style="dim")
        return
    shown = [one for one in (*comparison.ceilings, *comparison.cases) if one.verdict != FAILED]
    if shown:
        yield _Figures(shown, comparison)


class _Figures:
    """One table, or several where the terminal is too narrow for one: no figure is ever cut."""

    def __init__(self, shown: Sequence[Summary], comparison: Comparison) -> None:
        self._shown, self._comparison = shown, comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = columns_for(self._shown)
        yield from fitting(console, options, len(columns), lambda part: self._table(columns[part]))

    def _table(self, columns: Sequence[Column]) -> Table:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        differing = columned(cases_of(self._comparison.cases))
        for heading in (self._comparison.noun, *differing):
            table.add_column(heading, no_wrap=True)
        for place, column in enumerate(columns):
            # What stands over several columns is said again where another table begins amidst them.
            is_apart = place == 0 and column.heading.startswith("\n")
            heading = column.name.replace(" ", "\n") if is_apart else column.heading
            table.add_column(heading, justify="right", no_wrap=True)
        for summary in self._shown:
            names = [Text(summary.server, style=_STYLES.get(summary.verdict, ""))]
            names += [Text(str(value or "")) for value in at(summary.case, differing)]
            cells = figures(summary, columns)
            table.add_row(*names, *(_text(cell, column, summary) for cell, column in zip(cells, columns, strict=True)))
        return table


def _text(cell: Cell, column: Column, summary: Summary) -> Text:
    """Best values in bold and with a star: not everybody sees the bold."""
    if cell.best:
        return Text(f"{cell.text} *", style="bold green")
    return Text(f"{cell.text}  " if column.figure else cell.text, style=_STYLES.get(summary.verdict, ""))


def _failed(cases: Sequence[Summary]) -> Iterator[RenderableType]:
    """Those that have a reason in place of numbers."""
    grid, differing = Table.grid(padding=(0, 1, 0, 0)), varying(cases_of(cases))
    for summary in cases:
        if summary.verdict == FAILED:
            names = [summary.server, *(str(value or "") for value in at(summary.case, differing))]
            messages = "; ".join(reason.message for reason in summary.reasons)
            grid.add_row(*(Text(name, style="red", no_wrap=True) for name in names), Text(f"failed: {messages}"))
    if grid.rows:
        yield grid


def _flags(comparison: Comparison) -> Iterator[RenderableType]:
    """What is suspect in the figures above, or can't be told; what is said of several cases, once."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    said = [*comparison.ceilings, *(one for one in comparison.cases if one.verdict != FAILED)]
    for verdict, names, message in flags(said, comparison.cases):
        grid.add_row(Text(verdict, style="yellow"), Text(f"{', '.join(names)}: {message}"))
    if grid.rows:
        yield Text()
        yield grid


def _notes(result: Result, comparison: Comparison) -> Iterator[RenderableType]:
    """What has to be known though nothing is wrong."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for server, note in notes(result, comparison):
        grid.add_row(Text("note", style="cyan"), Text(f"{server}: {note}"))
    if grid.rows:
        yield Text()
        yield grid
