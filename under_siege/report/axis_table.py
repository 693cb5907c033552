"""The table of one axis: a column for each value, and behind it how far that differs from the first."""

from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.analysis.axis_differences import FIGURES, Across, Cell, across_of
from under_siege.analysis.report_data import summarize
from under_siege.checks.verdict import FAILED, OK
from under_siege.model.case import Value
from under_siege.model.case import axis as axis_called
from under_siege.model.record import Result
from under_siege.paths import PROGRAM
from under_siege.report.labels import in_words, varying
from under_siege.report.split_table import fitting

_TITLES = {"rate_per_s": "transactions per second", "cpu_s_per_transaction": "CPU per transaction"}


def as_across(result: Result, axis: str, *, corrected: bool = True) -> RenderableType:
    """Two of them: the rate, and the CPU for each transaction, which decides where the rate can't.

    Raises:
        BadInputError: fewer than two values of the axis were measured.
    """
    across = across_of(summarize(result, corrected=corrected), axis)
    return Group(*[part for name in FIGURES for part in (_Fitting(across, name), Text())], Text(_legend(across), "dim"))


class _Fitting:
    """One table, or several with some of the values each, where it is narrow."""

    def __init__(self, across: Across, name: str) -> None:
        self._across, self._name = across, name

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        values = self._across.values
        yield from fitting(console, options, len(values), lambda some: _table(self._across, self._name, values[some]))


def _table(across: Across, name: str, values: Sequence[Value]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 2, 0, 0))
    table.add_column(_TITLES[name], no_wrap=True)
    for value in values:
        table.add_column(axis_called(across.axis).told(value), justify="right", no_wrap=True)
    differing = varying(list(across.rows))
    several = len({case.server for case in across.rows}) > 1
    for case, cells in across.rows.items():
        told = [*([case.server] if several else []), *filter(None, [in_words(case, differing)])]
        table.add_row(" ".join(told) or case.server, *(_words(cells.get(value), name) for value in values))
    return table


def _words(cell: Cell | None, name: str) -> str:
    """Return `9,800  +31 %`; the difference is blank for the first value, and if it is not significant."""
    if cell is None:
        return ""
    value, difference = cell.figures.get(name), cell.differences[name]
    if cell.summary.verdict == FAILED or value is None:
        return f"failed{'':>9}"
    text = formatting.rate(value) if name == "rate_per_s" else f"{1e6 * value:,.0f} µs"
    told = "" if difference is None else f"{100 * difference:+.0f} %"
    return f"{text}{'' if cell.summary.verdict == OK else ' ?'} {told:>8}"


def _legend(across: Across) -> str:
    first = axis_called(across.axis).told(across.values[0])
    words = f"rates are speed-adjusted; differences are from {first}; blank: not significant"
    for name, fraction in across.noise.items():
        words += f"; the same version twice differed by up to {100 * fraction:.1f} % in {_TITLES[name]}"
    return f"{words}\n? is suspect or unclear, and not compared; {PROGRAM} report without --across shows why"
