"""A comparison as a table for a terminal, as Markdown, and its records as CSV."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from under_siege.analysis.report_data import Comparison, summarize
from under_siege.analysis.summary import Summary
from under_siege.analysis.threshold_check import judged
from under_siege.checks.verdict import FAILED, OK
from under_siege.model.record import Result
from under_siege.report import grid
from under_siege.report.columns import STYLES, columns_for, figures, is_corrected
from under_siege.report.conclusion import conclusion, in_sentences
from under_siege.report.grid import CsvValue, Grid, TableCell, plain
from under_siege.report.labels import across, at, cases_of, columned, varying
from under_siege.report.matrix import LEGEND, matrix
from under_siege.report.notes import flags, footnote, notes
from under_siege.report.threshold_text import required_as_markdown, required_as_table
from under_siege.stats.rounds_data import Round

NOTHING = "Nothing was measured."


def as_table(result: Result, *, corrected: bool = True) -> RenderableType:
    """Return the conclusion, the figures, what is wrong with them, and how they were measured."""
    comparison = summarize(result, corrected=corrected)
    cases = comparison.cases
    noted = _lines(
        (Text("note", style="cyan"), Text(f"{server}: {note}")) for server, note in notes(result, comparison)
    )
    if not cases and not comparison.ceilings:
        return Group(Text(NOTHING), *noted)
    sound = [*comparison.ceilings, *(case for case in cases if case.verdict != FAILED)]
    return Group(
        *(Text(f"{paragraph}\n") for paragraph in (*conclusion(comparison), *in_sentences(comparison))),
        *_figures(comparison),
        *_lines(_failed(cases), is_apart=False),
        *required_as_table(judged(result, comparison)),
        *_lines(
            (Text(verdict, style="yellow"), Text(f"{', '.join(names)}: {message}"))
            for verdict, names, message in flags(sound, cases)
        ),
        *noted,
        Text(f"\n{footnote(result, comparison)}", style="dim"),
    )


def _figures(comparison: Comparison) -> Iterator[RenderableType]:
    """Yield a table of all cases that have numbers, or a matrix of several loads or axes."""
    if across(cases_of(comparison.cases)):
        yield matrix(comparison)
        speed = " (speed-adjusted)" if is_corrected(comparison.cases) else ""
        yield Text(f"{LEGEND.format(speed)}; for all figures use --format markdown, csv or html", style="dim")
    elif (table := _grid(comparison)).rows:
        yield table


def _grid(comparison: Comparison) -> Grid:
    shown = [one for one in (*comparison.ceilings, *comparison.cases) if one.verdict != FAILED]
    differing = columned(cases_of(comparison.cases))
    columns = columns_for(shown)
    rows = [[*_names(summary, differing), *figures(summary, columns)] for summary in shown]
    return Grid([comparison.noun, *differing], [column.heading for column in columns], rows)


def _names(summary: Summary, differing: Sequence[str]) -> list[TableCell]:
    flag = "" if summary.verdict == OK else f" ({summary.verdict})"
    server = TableCell(summary.server + flag, STYLES.get(summary.verdict, ""), in_terminal=summary.server)
    return [server, *(TableCell(str(value or "")) for value in at(summary.case, differing))]


def _failed(cases: Sequence[Summary]) -> Iterator[list[Text]]:
    differing = varying(cases_of(cases))
    for summary in cases:
        if summary.verdict == FAILED:
            names = [summary.server, *(str(value or "") for value in at(summary.case, differing))]
            messages = "; ".join(reason.message for reason in summary.reasons)
            yield [*(Text(name, style="red", no_wrap=True) for name in names), Text(f"failed: {messages}")]


def _lines(rows: Iterable[Sequence[Text]], *, is_apart: bool = True) -> Iterator[RenderableType]:
    """Yield the rows as a table without headings; nothing if there are none."""
    table = Table.grid(padding=(0, 1, 0, 0))
    for row in rows:
        table.add_row(*row)
    if table.rows:
        yield from ([Text()] if is_apart else [])
        yield table


def as_markdown(result: Result, *, corrected: bool = True) -> str:
    """Return the same for a comment on a pull request."""
    comparison = summarize(result, corrected=corrected)
    everything = [*comparison.ceilings, *comparison.cases]
    if not everything:
        return NOTHING
    table = _grid(comparison)
    remarks = [
        f"- **{verdict}** {plain(', '.join(names))}: {plain(message)}"
        for verdict, names, message in flags(everything, comparison.cases)
    ] + [f"- note: {plain(server)}: {plain(note)}" for server, note in notes(result, comparison)]
    parts = [
        *map(plain, (*conclusion(comparison), *in_sentences(comparison))),
        table.as_markdown() if table.rows else "",
        required_as_markdown(judged(result, comparison)),
        "\n".join(remarks),
        grid.small_print(footnote(result, comparison).replace("* not", "bold: not").splitlines()),
    ]
    return "\n\n".join(filter(None, parts))


def as_csv(result: Result, *, corrected: bool = True) -> str:
    """Return a row for each case in each round, with units in the headings."""
    comparison = summarize(result, corrected=corrected)
    rows = [_row(one, comparison) for one in comparison.every_round()]
    headings = list(dict.fromkeys(heading for row in rows for heading in row)) or ["server"]
    return grid.as_csv(headings, ([_in_six_digits(row.get(heading)) for heading in headings] for row in rows))


def _in_six_digits(value: CsvValue) -> CsvValue:
    return f"{value:.6g}" if isinstance(value, float) else value


def _row(one: Round, comparison: Comparison) -> dict[str, CsvValue]:
    """Return the columns, named as in `report --format json`."""
    summary, record = comparison.summary_of_one(one), one.record
    latencies = {
        f"{kind}_{name}_s": getattr(latency, name, None)
        for kind, latency, names in (
            ("response", summary.response_s, ("p50", "p95", "p99", "max")),
            ("ping", summary.ping_s, ("p50", "p99", "max")),
        )
        for name in names
    }
    same = ("availability_pct", "transactions")
    at_the_end = ("cpu_s_per_transaction", "memory_bytes", "memory_kind")
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
        **{name: getattr(summary, name) for name in same},
        **latencies,
        **{name: getattr(summary, name) for name in at_the_end},
        "speed": summary.speed.mean if summary.speed else None,
        "ready_s": record.ready_s,
        "load_s": record.load_s,
    }
