"""Render a comparison for the terminal (as a table or a matrix), as Markdown, and as CSV."""

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from under_siege import formatting
from under_siege.judge.case_names import across, at, cases_of, columned, in_words, name_of, told_apart, varying
from under_siege.judge.metrics import SPEED_CORRECTED
from under_siege.judge.ranking import Comparison
from under_siege.judge.requirement_check import judged
from under_siege.judge.round_statistics import Round
from under_siege.judge.summary import Summary
from under_siege.judge.sweep import Across, Cell, across_of
from under_siege.judge.verdict_rules import FAILED, OK
from under_siege.paths import INVOCATION
from under_siege.record.case import Value, axis
from under_siege.run.conclusion import Answer, answers, sweep_sentences
from under_siege.show.columns import COLUMNS, STYLES, columns_for, name_in_table, rank_of
from under_siege.show.notes import flags, footnote, notes
from under_siege.show.requirement_outcomes import required_as_markdown, required_as_table
from under_siege.show.text_tables import CsvValue, Grid, Heading, TableCell, plain, rows_as_csv, small_print

NOTHING = "Nothing was measured."
WIDEST_HEADING, WIDEST_VALUE = 24, 40  # maximum number of letters of an axis value, in a heading and in a row


def as_table(comparison: Comparison, *, wide: bool = False) -> RenderableType:
    """Return everything that a terminal shows, from the conclusion to the conditions of the measurement."""
    cases = comparison.cases
    noted = _lines((Text("note", style="cyan"), Text(f"{server}: {note}")) for server, note in notes(comparison))
    if not cases and not comparison.ceilings:
        return Group(Text(NOTHING), *noted)
    answers_by_load = answers(comparison)
    sound = [*comparison.ceilings, *(case for case in cases if case.verdict != FAILED)]
    return Group(
        *(Text(line) for answer in answers_by_load for line in answer.lines()),
        *(Text(f"\n{paragraph}") for paragraph in sweep_sentences(comparison)),
        Text(),
        *_figures(comparison, answers_by_load, wide=wide),
        *_lines(_failed(cases)),
        *required_as_table(judged(comparison)),
        *_lines(
            (Text(verdict, style="yellow"), Text(f"{', '.join(names)}: {message}"))
            for verdict, names, message in flags(sound, cases)
        ),
        *noted,
        Text("\n".join(["", *footnote(comparison)]), style="dim"),
    )


def _figures(comparison: Comparison, answers_by_load: Sequence[Answer], *, wide: bool) -> Iterator[RenderableType]:
    if across(cases_of(comparison.cases)):
        yield _matrix(comparison)
        yield Text(f"{_legend_of_cells(comparison)}; for all figures, use --format markdown, csv or html", style="dim")
    elif (table := _grid(comparison, answers_by_load, wide=wide)).rows:
        yield table


def _grid(comparison: Comparison, answers_by_load: Sequence[Answer], *, wide: bool) -> Grid:
    shown = [summary for summary in comparison.by_rank() if summary.verdict != FAILED]
    differing = columned(cases_of(comparison.cases))
    recommended = [answer.case for answer in answers_by_load if answer.case]
    shorts = {
        name: told_apart((str(value) for one in shown if (value := one.case.get(name))), WIDEST_VALUE)
        for name in differing
    }
    columns = columns_for(shown, wide=wide)
    rows = []
    for summary in shown:
        flag = "" if summary.verdict == OK else f" ({summary.verdict})"
        name = name_in_table(summary, comparison.ceilings)
        values = (
            TableCell(str(value or ""), in_terminal=shorts[name].get(str(value), ""))
            for name, value in zip(differing, at(summary.case, differing), strict=True)
        )
        server = TableCell(name + flag, STYLES.get(summary.verdict, ""), in_terminal=name)
        cells = (column.cell(summary) for column in columns)
        rows.append([rank_of(summary, recommended), server, *values, *cells])
    return Grid(["rank", comparison.noun, *differing], [column.heading for column in columns], rows)


def _failed(cases: Sequence[Summary]) -> Iterator[list[Text]]:
    differing = varying(cases_of(cases))
    for summary in cases:
        if summary.verdict == FAILED:
            names = [summary.server, *(str(value or "") for value in at(summary.case, differing))]
            messages = "; ".join(reason.message for reason in summary.reasons)
            yield [*(Text(name, style="red", no_wrap=True) for name in names), Text(f"failed: {messages}")]


def _lines(rows: Iterable[Sequence[Text]]) -> Iterator[RenderableType]:
    """Yield an empty line and the rows as a table without headings, or nothing if there are no rows."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*row)
    if table.rows:
        yield from (Text(), table)


def as_markdown(comparison: Comparison) -> str:
    """Return the content of `as_table` as Markdown, for example for a comment on a pull request."""
    everything = [*comparison.ceilings, *comparison.cases]
    if not everything:
        return NOTHING
    answers_by_load = answers(comparison)
    table = _grid(comparison, answers_by_load, wide=True)
    remarks = [
        f"- **{verdict}** {plain(', '.join(names))}: {plain(message)}"
        for verdict, names, message in flags(everything, comparison.cases)
    ] + [f"- note: {plain(server)}: {plain(note)}" for server, note in notes(comparison)]
    parts = [
        *(part for answer in answers_by_load for part in _answer_as_markdown(answer)),
        *map(plain, sweep_sentences(comparison)),
        table.as_markdown() if table.rows else "",
        required_as_markdown(judged(comparison)),
        "\n".join(remarks),
        small_print(line.replace("* not", "bold: not") for line in footnote(comparison)),
    ]
    return "\n\n".join(filter(None, parts))


def _answer_as_markdown(answer: Answer) -> Iterator[str]:
    yield f"**{plain(answer.headline)}**"
    if bullets := [*(f"{label}: {text}" for label, text in answer.facts), *answer.remarks]:
        yield "\n".join(f"- {plain(bullet)}" for bullet in bullets)


def as_csv(comparison: Comparison) -> str:
    """Return CSV with a row for each case and round; its headings include the units."""
    rows = [_row(measured, comparison) for measured in comparison.every_round()]
    headings = list(dict.fromkeys(heading for row in rows for heading in row)) or ["server"]
    return rows_as_csv(headings, ([_in_six_digits(row.get(heading)) for heading in headings] for row in rows))


def _in_six_digits(value: CsvValue) -> CsvValue:
    return f"{value:.6g}" if isinstance(value, float) else value


def _row(measured: Round, comparison: Comparison) -> dict[str, CsvValue]:
    """Return the values of a CSV row by heading; the headings match the names in `report --format json`."""
    summary, record = comparison.summary_of_one(measured), measured.record
    latencies = {
        f"{kind}_{name}_s": getattr(latency, name, None)
        for kind, latency in (("response", summary.response_s), ("ping", summary.ping_s))
        for name in ("p50", "p95", "p99", "max")
    }
    return {
        "server": record.server,
        "task": summary.task,
        "users": summary.users,
        "python": summary.python,
        **{name: value for name, value in summary.parameters.items() if name != "workers"},
        "round": record.round,
        "began_at": record.began_at,
        "verdict": summary.verdict,
        "reasons": "; ".join(reason.code for reason in summary.reasons),
        "workers": record.workers,
        "rate_per_s": summary.rate_per_s.mean if summary.rate_per_s else None,
        "rate_at_usual_speed_per_s": summary.rate_at_usual_speed_per_s,
        "ceiling_per_s": summary.ceiling_per_s,
        "of_ceiling": summary.of_ceiling.mean if summary.of_ceiling else None,
        "availability_pct": summary.availability_pct,
        "transactions": summary.transactions,
        **latencies,
        "cpu_s_per_transaction": summary.cpu_s_per_transaction,
        "memory_bytes": summary.memory_bytes,
        "memory_kind": summary.memory_kind,
        "speed": summary.speed.mean if summary.speed else None,
        "ready_s": record.ready_s,
        "load_s": record.load_s,
    }


_PING_P99 = next(column for column in COLUMNS if column.name == "ping p99")
_TITLES = {"rate_per_s": "transactions per second", "cpu_s_per_transaction": "CPU per transaction"}
Setting = tuple[Value | None, ...]  # the values that define a column, one for each axis


def _matrix(comparison: Comparison) -> Grid:
    """Return a matrix of strategies and loads; cells show the rate and, if known, share of the ceiling and ping p99."""
    cases = cases_of(comparison.cases)
    axes = across(cases)
    settings = list(dict.fromkeys(setting for case in cases if None not in (setting := at(case, axes))))
    rows: dict[str, list[Summary]] = {}
    for summary in comparison.cases:
        rows.setdefault(name_of(summary.case, cases, without=axes), []).append(summary)
    rows = dict(sorted(rows.items(), key=lambda row: fmean(summary.rank or len(rows) for summary in row[1])))
    for summary in comparison.ceilings:
        rows.setdefault(name_in_table(summary, comparison.ceilings), []).append(summary)
    ceilings = set(map(id, comparison.ceilings))
    columns = list(zip(*settings, strict=True))
    shorts = [told_apart((str(value) for value in column), WIDEST_HEADING) for column in columns]
    headings = [
        "\n".join(
            axis(name).label(value if isinstance(value, int) else short[str(value)])
            for name, value, short in zip(axes, setting, shorts, strict=True)
        )
        for setting in settings
    ]
    return Grid(
        [comparison.noun],
        [Heading(heading) for heading in headings],
        [
            [TableCell(name), *(_rate_and_ping(_covering(same, axes, setting), ceilings) for setting in settings)]
            for name, same in rows.items()
        ],
        gap=2,
        is_spaced=True,
    )


def _legend_of_cells(comparison: Comparison) -> str:
    """Return the names of the figures that at least one cell of the matrix shows."""
    cases, ceilings = comparison.cases, comparison.ceilings
    figures = ["transactions per second"]
    if any(case.of_ceiling is not None for case in cases):
        figures.append("share of the ceiling")
    if any(case.ping_s for case in [*cases, *ceilings]):
        figures.append("ping p99")
    return f"each cell: {', '.join(figures)}"


def _covering(summaries: Sequence[Summary], axes: Sequence[str], setting: Setting) -> Summary | None:
    """Return the case with these values; a case without a value on an axis appears in each column of the axis."""
    wanted = dict(zip(axes, setting, strict=True))
    return next(
        (summary for summary in summaries if all(summary.case.get(name) in (None, wanted[name]) for name in axes)), None
    )


def _rate_and_ping(case: Summary | None, ceilings: set[int]) -> TableCell:
    if case is None:
        return TableCell("")
    if case.verdict == FAILED or case.rate_per_s is None:
        return TableCell("failed ", STYLES[FAILED])
    best = "rate_per_s" in case.best
    mark = "*" if best else "?" if case.verdict != OK else " "
    lines = [f"{formatting.rate(case.usual_rate_per_s)}{mark}"]
    if case.of_ceiling is not None and id(case) not in ceilings:
        lines.append(f"{formatting.share(case.of_ceiling.mean)} ")
    if case.ping_s:
        lines.append(f"{_PING_P99.text(case)} ")
    return TableCell("\n".join(lines), "bold green" if best else STYLES.get(case.verdict, ""))


def as_across(comparison: Comparison, axis_name: str) -> RenderableType:
    """Return a table of rates and a table of CPU times per transaction, each with a column for every value of the axis.

    Raises:
        BadInputError: fewer than two values of the axis were measured.
    """
    table = across_of(comparison, axis_name)
    parts = [part for figure in SPEED_CORRECTED for part in (_along(table, figure), Text())]
    return Group(*parts, Text(_legend(table), "dim"))


def _along(table: Across, figure: str) -> Grid:
    differing = varying(list(table.rows))
    several = len({case.server for case in table.rows}) > 1
    rows = []
    for case, cells in table.rows.items():
        words = [*([case.server] if several else []), *filter(None, [in_words(case, differing)])]
        name = TableCell(" ".join(words) or case.server)
        rows.append([name, *(TableCell(_difference(cells.get(value), figure)) for value in table.values)])
    headings = [Heading(axis(table.axis).label(value)) for value in table.values]
    return Grid([_TITLES[figure]], headings, rows, gap=2)


def _difference(cell: Cell | None, figure: str) -> str:
    """Return a text such as `9,800  +31 %`; omit the difference if it is not significant, or for the first value."""
    if cell is None:
        return ""
    value, difference = cell.figures.get(figure), cell.differences[figure]
    if cell.summary.verdict == FAILED or value is None:
        return f"failed{'':>9}"
    text = formatting.rate(value) if figure == "rate_per_s" else f"{1e6 * value:,.0f} µs"
    change = "" if difference is None else f"{100 * difference:+.0f} %"
    return f"{text}{'' if cell.summary.verdict == OK else ' ?'} {change:>8}"


def _legend(table: Across) -> str:
    first = axis(table.axis).label(table.values[0])
    words = f"rates are adjusted for CPU speed; differences are relative to {first}; blank: not significant"
    for name, fraction in table.noise.items():
        words += f"; two measurements of the same version differed by up to {100 * fraction:.1f} % in {_TITLES[name]}"
    return f"{words}\n?: suspect or unclear, so not compared; {INVOCATION} report without --across shows the reasons"
