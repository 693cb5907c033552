"""The comparison as a table in the terminal."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from common.record import Result
from common.report import numbers
from common.report.columns import FIGURES, Cell, Column, figures, varying
from common.report.summary import Summary, summarize
from common.report.verdict import FAILED

_STYLES = {"failed": "red", "suspect": "yellow"}


def as_table(result: Result) -> RenderableType:
    """The comparison, what is wrong with it, and how it was made."""
    summaries = summarize(result)
    if not summaries:
        return Text("Nothing was measured.")
    below = [*_failed(summaries), *_flags(summaries), Text(_footnote(result, summaries), style="dim")]
    return Group(_Comparison(summaries), *below)


class _Comparison:
    """The figures in one table, or in two where the terminal is too narrow for one: none is ever cut."""

    def __init__(self, summaries: Sequence[Summary]) -> None:
        self._summaries = summaries

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        whole = _table(self._summaries, FIGURES)
        if Measurement.get(console, options.update_width(1000), whole).maximum <= options.max_width:
            yield whole
        else:
            half = len(FIGURES) // 2
            yield _table(self._summaries, FIGURES[:half])
            yield Text()
            yield _table(self._summaries, FIGURES[half:])


def _table(summaries: Sequence[Summary], shown: Sequence[Column]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    differing = varying(summaries)
    for heading in ("strategy", *differing):
        table.add_column(heading, no_wrap=True)
    table.add_column("workers", justify="right", no_wrap=True)
    for figure in shown:
        table.add_column(figure.heading, justify="right", no_wrap=True)
    for summary in summaries:
        if summary.verdict == FAILED:
            continue
        names = [Text(summary.server, style=_STYLES.get(summary.verdict, ""))]
        names += [Text(str(getattr(summary, name))) for name in differing]
        cells = [_text(cell, summary) for cell in figures(summary, summaries, shown)]
        table.add_row(*names, Text(str(summary.workers or "-")), *cells)
    return table


def _text(cell: Cell, summary: Summary) -> Text:
    """Best values in bold and with a star: not everybody sees the bold."""
    if cell.best:
        return Text(f"{cell.text} *", style="bold green")
    return Text(f"{cell.text}  ", style=_STYLES.get(summary.verdict, ""))


def _failed(summaries: Sequence[Summary]) -> Iterator[RenderableType]:
    """Those that have a reason in place of numbers."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for summary in summaries:
        if summary.verdict == FAILED:
            names = [summary.server, *(str(getattr(summary, name)) for name in varying(summaries))]
            messages = "; ".join(reason.message for reason in summary.reasons)
            grid.add_row(*(Text(name, style="red", no_wrap=True) for name in names), Text(f"failed: {messages}"))
    if grid.rows:
        yield grid


def _flags(summaries: Sequence[Summary]) -> Iterator[RenderableType]:
    """What is suspect in the figures above."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for summary in summaries:
        for reason in summary.reasons if summary.verdict != FAILED else []:
            grid.add_row(Text("suspect", style="yellow"), Text(f"{summary.server}: {reason.message}"))
    if grid.rows:
        yield grid


def _footnote(result: Result, summaries: Sequence[Summary]) -> str:
    kinds = {record.memory_kind for record in result.records if record.memory_kind}
    rounds = max(summary.rounds for summary in summaries)
    facts = [
        *_common(summaries),
        f"{rounds} {'rounds' if rounds > 1 else 'round'} of {numbers.duration(result.records[0].time_s)}",
        f"{result.environment.usable_cpus} CPUs",
        f"memory is {'+'.join(sorted(kinds)).upper()}" if kinds else "",
        f"seed {result.seed}",
    ]
    starred = any(cell.best for one in summaries for cell in figures(one, summaries, FIGURES))
    return ("* best of its column\n" if starred else "") + " · ".join(filter(None, facts))


def _common(summaries: Sequence[Summary]) -> list[str]:
    """What all cases have in common, so that it needs no column."""
    first, differing = summaries[0], varying(summaries)
    texts = {"task": first.task, "users": f"{first.users} users", "python": f"Python {first.python}"}
    return [text for name, text in texts.items() if name not in differing]
