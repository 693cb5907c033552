"""The comparison as a table in the terminal."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from common.record import Result
from common.report import numbers
from common.report.columns import FIGURES, Cell, figures, varying
from common.report.summary import Summary, summarize

_STYLES = {"failed": "red", "suspect": "yellow"}


def as_table(result: Result) -> RenderableType:
    """The comparison, what is wrong with it, and how it was made."""
    summaries = summarize(result)
    if not summaries:
        return Text("Nothing was measured.")
    return Group(_table(summaries), *_flags(summaries), Text(_footnote(result, summaries), style="dim"))


def _table(summaries: Sequence[Summary]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    differing = varying(summaries)
    for heading in ("strategy", *differing):
        table.add_column(heading, no_wrap=True)
    table.add_column("workers", justify="right", no_wrap=True)
    for figure in FIGURES:
        table.add_column(figure.heading, justify="right", no_wrap=True)
    for summary in summaries:
        names = [Text(summary.server, style=_STYLES.get(summary.verdict, ""))]
        names += [Text(str(getattr(summary, name))) for name in differing]
        cells = [_text(cell, summary) for cell in figures(summary, summaries)]
        table.add_row(*names, Text(str(summary.workers or "-")), *cells)
    return table


def _text(cell: Cell, summary: Summary) -> Text:
    """Best values in bold and with a star: not everybody sees the bold."""
    if cell.best:
        return Text(f"{cell.text} *", style="bold green")
    return Text(f"{cell.text}  ", style=_STYLES.get(summary.verdict, ""))


def _flags(summaries: Sequence[Summary]) -> Iterator[RenderableType]:
    for summary in summaries:
        for reason in summary.reasons:
            flag = Text(f"{summary.verdict} ", style=_STYLES[summary.verdict])
            yield Padding(flag.append(f"{summary.server}: {reason.message}", style="default"), (0, 0, 0, 0))
    if any(summary.reasons for summary in summaries):
        yield Text()


def _footnote(result: Result, summaries: Sequence[Summary]) -> str:
    machine = result.environment
    kinds = {record.memory_kind for record in result.records if record.memory_kind}
    rounds = max(summary.rounds for summary in summaries)
    facts = [
        *_common(summaries),
        f"{rounds} {'rounds' if rounds > 1 else 'round'} of {numbers.duration(result.records[0].time_s)}",
        f"{machine.usable_cpus} CPUs",
        f"memory is {'+'.join(sorted(kinds)).upper()}" if kinds else "",
        f"seed {result.seed}",
    ]
    best = "* best of its column\n" if any(cell.best for one in summaries for cell in figures(one, summaries)) else ""
    return best + " · ".join(filter(None, facts))


def _common(summaries: Sequence[Summary]) -> list[str]:
    """What all cases have in common, so that it needs no column."""
    first, differing = summaries[0], varying(summaries)
    texts = {"task": first.task, "users": f"{first.users} users", "python": f"Python {first.python}"}
    return [text for name, text in texts.items() if name not in differing]
