"""The matrix: a line for each strategy and a column for each load, or for each value on the last of several axes."""

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.analysis.report_data import Comparison
from under_siege.analysis.summary import Summary
from under_siege.checks.verdict import FAILED, OK
from under_siege.model.case import Value, axis
from under_siege.report.columns import FIGURES
from under_siege.report.labels import across, at, cases_of, name_of
from under_siege.report.split_table import fitting

PING_P99 = next(column for column in FIGURES if column.name == "ping p99")
LEGEND = "each cell: transactions per second{}, share of the ceiling, ping p99"
_STYLES = {FAILED: "red", "suspect": "yellow", "unclear": "yellow"}


Setting = tuple[Value | None, ...]  # values on the axes that have columns


class Matrix:
    """Each cell has the rate, its share of the ceiling, and the 99th percentile of the pings; the best is marked.

    One table, or several where the terminal is too narrow for all columns.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cases = cases_of(self._comparison.cases)
        axes = across(cases)
        settings = list(dict.fromkeys(setting for case in cases if None not in (setting := at(case, axes))))
        yield from fitting(console, options, len(settings), lambda part: _table(self._comparison, axes, settings[part]))


def _table(comparison: Comparison, axes: Sequence[str], settings: Sequence[Setting]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0), show_lines=False)
    table.add_column(comparison.noun, no_wrap=True)
    for setting in settings:
        table.add_column(_heading(axes, setting), justify="right", no_wrap=True)
    cases = cases_of(comparison.cases)
    shares = {id(one) for one in comparison.cases}
    rows: dict[str, list[Summary]] = {}
    for one in (*comparison.ceilings, *comparison.cases):
        rows.setdefault(name_of(one.case, cases, without=axes), []).append(one)
    for name, found in rows.items():
        cells = [_cell(_covering(found, axes, setting), shares) for setting in settings]
        table.add_row(Text(name), *cells, end_section=False)
        table.add_row()
    return table


def _heading(axes: Sequence[str], setting: Setting) -> str:
    """Two lines, or as many as there are axes."""
    return "\n".join(axis(name).told(value) for name, value in zip(axes, setting, strict=True) if value is not None)


def _covering(found: Sequence[Summary], axes: Sequence[str], setting: Setting) -> Summary | None:
    """The case with these values; what does not depend on an axis stands at each of its values."""
    wanted = dict(zip(axes, setting, strict=True))
    return next((one for one in found if all(one.case.get(name) in (None, wanted[name]) for name in axes)), None)


def _cell(case: Summary | None, shares: set[int]) -> Text:
    if case is None:
        return Text("")
    if case.verdict == FAILED or case.rate_per_s is None:
        return Text("failed  ", style=_STYLES[FAILED])
    best = "rate_per_s" in case.best
    mark = " *" if best else " ?" if case.verdict != OK else "  "
    lines = [f"{formatting.rate(case.usual_rate_per_s)}{mark}"]
    if case.of_ceiling is not None and id(case) in shares:
        lines.append(f"{formatting.share(case.of_ceiling.mean)}  ")
    if case.ping_s:
        lines.append(f"{PING_P99.text(case)}  ")
    return Text("\n".join(lines), style="bold green" if best else _STYLES.get(case.verdict, ""))
