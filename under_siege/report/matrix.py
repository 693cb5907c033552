"""Tables with a column for each load or for each value of an axis."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from under_siege import formatting
from under_siege.analysis import axis_differences
from under_siege.analysis.axis_differences import Across, across_of
from under_siege.analysis.report_data import Comparison, summarize
from under_siege.analysis.summary import Summary
from under_siege.checks.verdict import FAILED, OK
from under_siege.model.case import Value, axis
from under_siege.model.record import Result
from under_siege.paths import PROGRAM
from under_siege.report.columns import FIGURES, STYLES
from under_siege.report.grid import Grid, Heading, TableCell
from under_siege.report.labels import across, at, cases_of, in_words, name_of, varying

LEGEND = "each cell: transactions per second{}, share of the ceiling, ping p99"
_PING_P99 = next(column for column in FIGURES if column.name == "ping p99")
_TITLES = {"rate_per_s": "transactions per second", "cpu_s_per_transaction": "CPU per transaction"}
Setting = tuple[Value | None, ...]  # values on the axes that have columns


def matrix(comparison: Comparison) -> Grid:
    """Return rate, share of the ceiling and ping p99 of each strategy for each load; the best rate is marked."""
    cases = cases_of(comparison.cases)
    axes = across(cases)
    settings = list(dict.fromkeys(setting for case in cases if None not in (setting := at(case, axes))))
    rows: dict[str, list[Summary]] = {}
    for one in (*comparison.ceilings, *comparison.cases):
        rows.setdefault(name_of(one.case, cases, without=axes), []).append(one)
    ceilings = set(map(id, comparison.ceilings))
    headings = [
        [axis(name).told(value) for name, value in zip(axes, one, strict=True) if value is not None] for one in settings
    ]
    return Grid(
        [comparison.noun],
        [Heading("\n".join(lines)) for lines in headings],
        [
            [TableCell(name), *(_cell(_covering(same, axes, setting), ceilings) for setting in settings)]
            for name, same in rows.items()
        ],
        gap=2,
        is_spaced=True,
    )


def _covering(found: Sequence[Summary], axes: Sequence[str], setting: Setting) -> Summary | None:
    """Return the case with these values; a case without an axis is in each of its columns."""
    wanted = dict(zip(axes, setting, strict=True))
    return next((one for one in found if all(one.case.get(name) in (None, wanted[name]) for name in axes)), None)


def _cell(case: Summary | None, ceilings: set[int]) -> TableCell:
    if case is None:
        return TableCell("")
    if case.verdict == FAILED or case.rate_per_s is None:
        return TableCell("failed  ", STYLES[FAILED])
    best = "rate_per_s" in case.best
    mark = " *" if best else " ?" if case.verdict != OK else "  "
    lines = [f"{formatting.rate(case.usual_rate_per_s)}{mark}"]
    if case.of_ceiling is not None and id(case) not in ceilings:
        lines.append(f"{formatting.share(case.of_ceiling.mean)}  ")
    if case.ping_s:
        lines.append(f"{_PING_P99.text(case)}  ")
    return TableCell("\n".join(lines), "bold green" if best else STYLES.get(case.verdict, ""))


def as_across(result: Result, axis_name: str, *, corrected: bool = True) -> RenderableType:
    """Return the rate and the CPU time per transaction for each value of an axis.

    Raises:
        BadInputError: fewer than two values of the axis were measured.
    """
    table = across_of(summarize(result, corrected=corrected), axis_name)
    parts = [part for figure in axis_differences.FIGURES for part in (_along(table, figure), Text())]
    return Group(*parts, Text(_legend(table), "dim"))


def _along(table: Across, figure: str) -> Grid:
    differing = varying(list(table.rows))
    several = len({case.server for case in table.rows}) > 1
    rows = []
    for case, cells in table.rows.items():
        words = [*([case.server] if several else []), *filter(None, [in_words(case, differing)])]
        name = TableCell(" ".join(words) or case.server)
        rows.append([name, *(TableCell(_difference(cells.get(value), figure)) for value in table.values)])
    headings = [Heading(axis(table.axis).told(value)) for value in table.values]
    return Grid([_TITLES[figure]], headings, rows, gap=2)


def _difference(cell: axis_differences.Cell | None, figure: str) -> str:
    """Return `9,800  +31 %`; the difference is blank for the first value, and if it is not significant."""
    if cell is None:
        return ""
    value, difference = cell.figures.get(figure), cell.differences[figure]
    if cell.summary.verdict == FAILED or value is None:
        return f"failed{'':>9}"
    text = formatting.rate(value) if figure == "rate_per_s" else f"{1e6 * value:,.0f} µs"
    change = "" if difference is None else f"{100 * difference:+.0f} %"
    return f"{text}{'' if cell.summary.verdict == OK else ' ?'} {change:>8}"


def _legend(table: Across) -> str:
    first = axis(table.axis).told(table.values[0])
    words = f"rates are speed-adjusted; differences are from {first}; blank: not significant"
    for name, fraction in table.noise.items():
        words += f"; the same version twice differed by up to {100 * fraction:.1f} % in {_TITLES[name]}"
    return f"{words}\n? is suspect or unclear, and not compared; {PROGRAM} report without --across shows why"
