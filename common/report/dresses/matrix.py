"""The matrix: a line for each strategy and a column for each task and number of users, where there are several."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from common.model.record import BARE
from common.report import numbers
from common.report.judging.rules import FAILED, OK
from common.report.judging.summary import Comparison, Summary
from common.report.words.columns import FIGURES, name_of

PING_P99 = next(column for column in FIGURES if column.name == "ping p99")
LEGEND = "each cell: transactions per second, share of the ceiling, ping p99"
_STYLES = {FAILED: "red", "suspect": "yellow", "unclear": "yellow"}


def settings_of(comparison: Comparison) -> list[tuple[str, int]]:
    """Each task and number of users that something was measured with."""
    return list(dict.fromkeys((case.task, case.users) for case in (*comparison.cases, *comparison.ceilings)))


class Matrix:
    """Each cell has the rate, its share of the ceiling, and the 99th percentile of the pings; the best is marked.

    One table, or several where the terminal is too narrow for all columns.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        settings = settings_of(self._comparison)
        for count in range(len(settings), 0, -1):
            tables = [_table(self._comparison, settings[at : at + count]) for at in range(0, len(settings), count)]
            unlimited = options.update_width(10_000)
            if max(Measurement.get(console, unlimited, table).maximum for table in tables) <= options.max_width:
                break
        yield from tables


def _table(comparison: Comparison, settings: Sequence[tuple[str, int]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0), show_lines=False)
    table.add_column("strategy", no_wrap=True)
    for task, users in settings:
        table.add_column(f"{task}\n{users} users", justify="right", no_wrap=True)
    everything = [*comparison.ceilings, *comparison.cases]
    cells = {(name_of(case, comparison.cases), case.task, case.users): case for case in everything}
    for name in dict.fromkeys(name for name, *_ in cells):
        row = [_cell(cells.get((name, *setting))) for setting in settings]
        table.add_row(Text(name), *row, end_section=False)
        table.add_row()
    return table


def _cell(case: Summary | None) -> Text:
    if case is None:
        return Text("")
    if case.verdict == FAILED or case.rate_per_s is None:
        return Text("failed  ", style=_STYLES[FAILED])
    best = "rate_per_s" in case.best
    mark = " *" if best else " ?" if case.verdict != OK else "  "
    lines = [f"{numbers.rate(case.rate_per_s.mean)}{mark}"]
    if case.of_ceiling is not None and case.server != BARE:
        lines.append(f"{numbers.share(case.of_ceiling.mean)}  ")
    if case.ping_s:
        lines.append(f"{PING_P99.text(case)}  ")
    return Text("\n".join(lines), style="bold green" if best else _STYLES.get(case.verdict, ""))
