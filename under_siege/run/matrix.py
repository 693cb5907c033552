"""Arrange cases in a matrix: strategies by loads, or one metric along an axis."""

from collections.abc import Sequence
from statistics import fmean

from under_siege import formatting
from under_siege.judge.axis_differences import Across, CaseOfAxis, across_of
from under_siege.judge.metrics import METRICS, SPEED_CORRECTED
from under_siege.judge.ranking import Comparison
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED, OK
from under_siege.paths import INVOCATION
from under_siege.record.case import axis
from under_siege.show.case_names import CaseNames, Setting, in_words, told_apart, varying
from under_siege.show.columns import name_in_table, noun, text_of, with_first_text
from under_siege.show.view import Cell, Column, Medium, Row, Table, Tone, View

WIDEST_HEADING = 24  # maximum number of letters of an axis value in a heading


def matrix(comparison: Comparison) -> Table:
    """Return a matrix of strategies and loads.

    Cells show the rate and, if known, the share of the ceiling, the p99 of first events and gaps, and the ping p99.
    """
    names = CaseNames(comparison.cases)
    axes, settings = names.across, names.settings
    rows: dict[str, list[Summary]] = {}
    for summary in comparison.cases:
        rows.setdefault(names.name(summary.case, without=axes), []).append(summary)
    rows = dict(sorted(rows.items(), key=lambda row: fmean(summary.rank or len(rows) for summary in row[1])))
    for summary in comparison.ceilings:
        rows.setdefault(name_in_table(summary, comparison.ceilings), []).append(summary)
    ceilings, table_rows = set(map(id, comparison.ceilings)), []
    for name, same in rows.items():
        shown = [next((each for each in same if names.is_shown_in(each.case, setting)), None) for setting in settings]
        table_rows.append(Row([Cell(name), *(_rate_and_ping(summary, ceilings) for summary in shown)]))
    return Table(
        "matrix",
        "",
        [Column(noun(comparison.result), is_text=True), *map(Column, _headings(axes, settings))],
        table_rows,
        caption=[f"{_legend_of_cells(comparison)}; for all figures, use --format markdown, csv or html"],
        gap=2,
        is_spaced=True,
        media={Medium.TERMINAL},
    )


def _headings(axes: Sequence[str], settings: Sequence[Setting]) -> list[str]:
    shorts = [told_apart(map(str, values), WIDEST_HEADING) for values in zip(*settings, strict=True)]
    return [
        "\n".join(
            axis(name).label(value if isinstance(value, int) else short[str(value)])
            for name, value, short in zip(axes, setting, shorts, strict=True)
        )
        for setting in settings
    ]


def _legend_of_cells(comparison: Comparison) -> str:
    """Return the names of the figures that at least one cell of the matrix shows."""
    cases, ceilings = comparison.cases, comparison.ceilings
    has_streams = any(case.has_streams for case in cases)
    figures = ["events per second" if has_streams else "transactions per second"]
    if any(case.of_ceiling is not None for case in cases):
        figures.append("share of the ceiling")
    figures += [with_first_text("first event p99", cases), "gap p99"] if has_streams else []
    if any(case.ping_s for case in [*cases, *ceilings]):
        figures.append("ping p99")
    return f"each cell: {', '.join(figures)}"


def _rate_and_ping(case: Summary | None, ceilings: set[int]) -> Cell:
    if case is None:
        return Cell()
    if case.verdict == FAILED or case.rate_per_s is None:
        return Cell(case.verdict, Tone.BAD if case.verdict == FAILED else Tone.WARNING, in_terminal=f"{case.verdict} ")
    mark, tone = (" ", Tone.PLAIN) if case.verdict == OK else ("?", Tone.WARNING)
    if "rate_per_s" in case.best:
        mark, tone = "*", Tone.BEST
    lines = [f"{formatting.rate(case.rate)}{mark}"]
    if case.of_ceiling is not None and id(case) not in ceilings:
        lines.append(f"{formatting.share(case.of_ceiling.mean)} ")
    lines += [f"{text_of(METRICS[key], case)} " for key in ("first_event_p99_s", "gap_p99_s") if case.has_streams]
    if case.ping_s:
        lines.append(f"{text_of(METRICS['ping_p99_s'], case)} ")
    return Cell(lines[0], tone, in_terminal="\n".join(lines))


def across_view(comparison: Comparison, axis_name: str) -> View:
    """Return a table of rates and a table of CPU times per transaction, each with a column for every value of the axis.

    Raises:
        BadInputError: fewer than two values of the axis were measured.
    """
    table = across_of(comparison, axis_name)
    title = f"How does performance depend on {axis_name}?"
    return View(title, tables=[_along(table, figure) for figure in SPEED_CORRECTED], footnotes=_legend(table))


def _along(table: Across, figure: str) -> Table:
    differing = varying(list(table.rows))
    several = len({case.server for case in table.rows}) > 1
    rows = []
    for case, cells in table.rows.items():
        words = [*([case.server] if several else []), *filter(None, [in_words(case, differing)])]
        name = Cell(" ".join(words) or case.server)
        rows.append(Row([name, *(Cell(_difference(cells.get(value), figure)) for value in table.values)]))
    columns = [Column(axis(table.axis).label(value)) for value in table.values]
    return Table(figure, "", [Column(METRICS[figure].title, is_text=True), *columns], rows, gap=2)


def _difference(cell: CaseOfAxis | None, figure: str) -> str:
    """Return a text such as `9,800  +31 %`; omit the difference if it is not significant, or for the first value."""
    if cell is None:
        return ""
    value, difference = cell.figures.get(figure), cell.differences[figure]
    if cell.summary.verdict == FAILED or value is None:
        return f"{cell.summary.verdict}{'':>9}"
    text = formatting.rate(value) if figure == "rate_per_s" else f"{1e6 * value:,.0f} µs"
    change = "" if difference is None else f"{100 * difference:+.0f} %"
    return f"{text}{'' if cell.summary.verdict == OK else ' ?'} {change:>8}"


def _legend(table: Across) -> list[str]:
    first = axis(table.axis).label(table.values[0])
    words = f"rates are adjusted for CPU speed; differences are relative to {first}; blank: not significant"
    for name, fraction in table.noise.items():
        words += (
            f"; two measurements of the same version differed by up to {100 * fraction:.1f} % in {METRICS[name].title}"
        )
    return [words, f"?: suspect or unclear, so not compared; {INVOCATION} report without --across shows the reasons"]
