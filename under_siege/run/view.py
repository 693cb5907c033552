"""Show a comparison: the conclusion, the table, requirements, notes, charts, and how it was measured."""

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from under_siege import formatting
from under_siege.compare import view as compare
from under_siege.compare.diff import compare_revisions
from under_siege.judge.metrics import METRICS
from under_siege.judge.ranking import Comparison, summarize
from under_siege.judge.requirement_check import Judged, exit_code_of, judged
from under_siege.judge.round_statistics import Round
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED, OK, SUSPECT, UNCLEAR
from under_siege.profile import view as profile
from under_siege.record.case import Case
from under_siege.record.result import Result
from under_siege.run.chart_selection import figures
from under_siege.run.conclusion import Answer, answers
from under_siege.run.matrix import matrix
from under_siege.run.route_conclusion import how_to, is_only_proposed, notes_on, route_as_data, with_route
from under_siege.run.sweep_conclusion import sweep_sentences, sweeps_as_data
from under_siege.show import columns
from under_siege.show.case_names import CaseNames, at, in_plain_words, told_apart, with_file
from under_siege.show.conditions import began_at, facts, identity, interruption
from under_siege.show.notes import flags, footnote, load_tool_share, notes
from under_siege.show.requirement_outcomes import required_as_data, required_table
from under_siege.show.view import Cell, Column, CsvValue, Medium, Note, Paragraph, Row, Table, Tone, View
from under_siege.trace import view as trace

NOTHING = "Nothing was measured."
WIDEST_VALUE = 40  # maximum number of letters of an axis value in a terminal
TONES = {FAILED: Tone.BAD, SUSPECT: Tone.WARNING, UNCLEAR: Tone.WARNING}
LIMITS = (
    "Results on other hardware, with another Python version or for another task: run the benchmark there.",
    "The effect of a network: everything ran on one machine, and the load tool used some of its CPU time.",
    "How many users a service can handle: users here pause between requests only if the load says so (--pause).",
    "Differences below 2 %: rates are not more accurate than 2 %.",
)


def views(result: Result) -> list[View]:
    """Return the view of a run, and those of its traces and profiles, if there are any."""
    parts = [trace.view(result)] if result.traces else []
    parts += [profile.view(result)] if result.profiles else []
    return [view(summarize(result)), *parts]


def view(comparison: Comparison) -> View:
    """Return what `run` shows; if two revisions were measured, what changed replaces the recommendation."""
    suite = comparison.result.suite
    whole = _view(comparison)
    return _with_changes(whole, comparison) if suite is not None and suite.against else whole


def _with_changes(whole: View, comparison: Comparison) -> View:
    changes = compare.view(compare_revisions(comparison.result))
    of_changes, *others = changes.tables
    every_case = replace(comparison_table(comparison, (), {Medium.PAGE}), caption=whole.footnotes)
    data = {name: value for name, value in (whole.data or {}).items() if name != "requirements"}
    return replace(
        whole,
        headline=changes.headline,
        tables=[of_changes, every_case, *others],
        notes=changes.notes,
        footnotes=changes.footnotes,
        data={**data, "revisions": changes.data},
        exit_code=changes.exit_code,
    )


def _view(comparison: Comparison) -> View:
    """Return the recommendation with all figures.

    The exit code is 1 if a case failed or misses a requirement; else 3 if a case is suspect or unclear, or a
    requirement is undecided; else 0. Cases that the bench added to show what if a route moved don't count.
    """
    result, required = comparison.result, judged(comparison)
    found = [] if result.unmeasured() else with_route(comparison, answers(comparison))
    recommended = [answer.case for answer in found if answer.case]
    return View(
        title=_title(result),
        headline=list(_headline(comparison, found)),
        tables=[*_tables(comparison, recommended), *_requests(comparison), required_table(required)],
        notes=[*_flags(comparison), *_notes(comparison)],
        footnotes=footnote(comparison),
        figures=list(figures(comparison)),
        data=_data(comparison, required, found),
        csv=_csv(comparison),
        facts=list(_facts(comparison)),
        limits=LIMITS,
        made_at=began_at(result),
        exit_code=_exit_code(comparison, required),
    )


def _title(result: Result) -> str:
    if result.suite is not None and (result.records or result.traces or result.profiles):
        return result.suite.title
    if result.profiles and not (result.records or result.traces):
        return "What blocks each server?"
    tasks = list(dict.fromkeys(str(each.values.get("task") or "") for each in (*result.records, *result.traces)))
    if not tasks:
        return "Nothing was measured"
    return f"Which concurrency strategy should run {formatting.listed(tasks)}?"


def _headline(comparison: Comparison, found: Sequence[Answer]) -> Iterator[Paragraph]:
    if interrupted := interruption(comparison.result):
        yield Paragraph(interrupted, is_main=True, tone=Tone.WARNING)
    yield from (Paragraph(answer.headline, answer.facts, answer.remarks, is_main=True) for answer in found)
    yield from how_to(comparison, found)
    yield from map(Paragraph, sweep_sentences(comparison))
    result = comparison.result
    if not (result.records or result.traces or result.profiles):
        yield Paragraph(NOTHING)


def _tables(comparison: Comparison, recommended: Collection[Case]) -> Iterator[Table]:
    """Yield a table of all cases; in a terminal, a matrix replaces it if the cases differ in their load."""
    is_matrix = bool(CaseNames(comparison.cases).across)
    if is_matrix:
        yield matrix(comparison)
    yield comparison_table(comparison, recommended, {Medium.DOCUMENT, Medium.PAGE} if is_matrix else tuple(Medium))


def comparison_table(comparison: Comparison, recommended: Collection[Case], media: Collection[Medium]) -> Table:
    """Return a table with a row for each case and ceiling. Only pages have rows for failed cases."""
    shown = comparison.by_rank()
    sound = [summary for summary in shown if summary.verdict != FAILED]
    axes = [name for name in CaseNames(comparison.cases).axes if name != "workers"]  # `workers` is a metric, too
    metrics = columns.columns_for(sound)
    shorts = {
        name: told_apart((str(value) for one in sound if (value := one.case.get(name))), WIDEST_VALUE) for name in axes
    }
    rows = []
    for summary in shown:
        rank = f"{'→ ' if summary.case in recommended else ''}{summary.rank or ''}"
        values = [
            Cell(str(value or ""), in_terminal=shorts[name].get(str(value), ""))
            for name, value in zip(axes, at(summary.case, axes), strict=True)
        ]
        is_failed = summary.verdict == FAILED
        figures_of_case = [Cell() if is_failed else each.cell(summary) for each in metrics]
        cells = [Cell(rank), _name(summary, comparison), *values, *figures_of_case]
        rows.append(_row(summary, cells, comparison, is_main=summary.case in recommended))
    names = [Column(name, is_text=True) for name in ("rank", columns.noun(comparison.result), *axes)]
    numbers = [each.column for each in metrics]
    return Table("comparison", "The comparison", [*names, *numbers], rows, header=1, media=media)


def _requests(comparison: Comparison) -> Iterator[Table]:
    """Yield a table of the different requests of each case, if there are any."""
    names, rows = CaseNames(comparison.cases), []
    known: dict[str, float | None] = {}
    for summary in comparison.by_rank():
        for request in sorted(summary.requests, key=lambda request: -(request.response_s.p50 or 0.0)):
            known = {
                "availability_pct": request.availability_pct,
                "response_p50_s": request.response_s.p50,
                "response_p99_s": request.response_s.p99,
            }
            texts = [names.name(summary.case), request.name, formatting.share(request.share_pct / 100)]
            texts += ["" if value is None else METRICS[key].unit.text(value) for key, value in known.items()]
            rows.append(Row(list(map(Cell, [*texts, f"{request.mean_bytes:,.0f}"]))))
    if rows:
        headings = [Column(name, is_text=True) for name in (columns.noun(comparison.result), "request")]
        headings += map(Column, ("share", *(METRICS[key].column for key in known), "mean bytes"))
        yield Table("requests", "The requests", headings, rows, header=1)


def _row(summary: Summary, cells: Sequence[Cell], comparison: Comparison, *, is_main: bool) -> Row:
    if summary.verdict == OK:
        return Row(cells, Tone.QUIET if summary in comparison.ceilings else Tone.PLAIN, is_main=is_main)
    return Row(
        cells,
        TONES[summary.verdict],
        summary.verdict,
        ", ".join(reason.code.replace("_", " ") for reason in summary.reasons),
        [reason.message for reason in summary.reasons],
        media={Medium.PAGE} if summary.verdict == FAILED else tuple(Medium),
    )


def _name(summary: Summary, comparison: Comparison) -> Cell:
    name = columns.name_in_table(summary, comparison.ceilings)
    plain = "no server" if summary.server == columns.NO_SERVER else in_plain_words(summary.server, summary.title)
    return Cell(name, title=plain if plain != name else "")


def _flags(comparison: Comparison) -> Iterator[Note]:
    found = flags([*comparison.ceilings, *comparison.cases], comparison.cases)
    for verdict, names, message in sorted(found, key=lambda flag: flag[0] != FAILED):
        yield Note(verdict, ", ".join(names), message, TONES[verdict])


def _notes(comparison: Comparison) -> Iterator[Note]:
    """Yield all notes; on a page, servers that have no row in the table get names in plain words, too."""
    plain = {each.server: with_file(each.server, each.title) for each in comparison.result.left_out}
    for names, text in (*notes_on(comparison), *notes(comparison)):
        yield Note("note", names, text, title=", ".join(plain.get(name, name) for name in names.split(", ")))


def _data(comparison: Comparison, required: Sequence[Judged], found: Sequence[Answer]) -> dict[str, Any]:
    """Return the data for JSON. The keys must not change, because users rely on them."""
    result = comparison.result
    data = {**identity(result), "cases": comparison.cases}
    if sweeps := sweeps_as_data(comparison):
        data["sweeps"] = sweeps
    if route := route_as_data(comparison, found):
        data["route"] = route
    if result.requirements:
        data["requirements"] = required_as_data(required)
    return data


def _exit_code(comparison: Comparison, required: Sequence[Judged]) -> int:
    verdicts = {summary.verdict for summary in comparison.cases if not is_only_proposed(summary, comparison)}
    of_requirements = exit_code_of(required)
    if FAILED in verdicts or of_requirements == 1:
        return 1
    return 3 if verdicts - {OK} or of_requirements else 0


def _csv(comparison: Comparison) -> tuple[list[str], Iterator[list[CsvValue]]]:
    """Return a row for each case and round; the headings include the units."""
    rounds = comparison.every_round()
    first = _csv_row(rounds[0], comparison) if rounds else {"server": None}
    headings = list(dict.fromkeys([*first, *(name for run in rounds for name in _parameters(run.case.parameters))]))
    rows = (_csv_row(run, comparison) for run in rounds)  # computed only if they are written
    return headings, ([row.get(heading) for heading in headings] for row in rows)


def _csv_row(measured: Round, comparison: Comparison) -> dict[str, CsvValue]:
    """Return the values of a CSV row by heading; the headings match the names in `report --format json`."""
    summary, record = comparison.summary_of_one(measured), measured.record
    return {
        "server": record.server,
        "task": summary.task,
        "users": summary.users,
        "python": summary.python,
        **_parameters(summary.parameters),
        "round": record.round,
        "began_at": record.began_at,
        "verdict": summary.verdict,
        "reasons": "; ".join(reason.code for reason in summary.reasons),
        **{key: summary.shown(key) for key in METRICS if key != "rate_as_measured_per_s"},
        "measured_per_s": summary.measured_per_s,
        "ceiling_per_s": summary.ceiling_per_s,
        "transactions": summary.transactions,
        "memory_kind": summary.memory_kind,
        "workers": record.workers,  # also of a round that failed
        "ready_s": record.ready_s,
        "load_s": record.load_s,
    }


def _parameters(parameters: Mapping[str, CsvValue]) -> dict[str, CsvValue]:
    return {name: value for name, value in parameters.items() if name != "workers"}


def _facts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each fact that is needed to reproduce the result."""
    result = comparison.result
    yield from facts(result)
    if not result.records:
        return
    yield "conditions", " · ".join(filter(None, [footnote(comparison)[-1], load_tool_share(result)]))
    yield "seed", str(result.seed)
    started = next((record for record in result.records if record.tool_command), result.records[0])
    yield f"{started.tool} command", shlex.join(started.tool_command)
    averages = [record.load_average for record in result.records]
    low, high = (formatting.significant(value, 2) for value in (min(averages), max(averages)))
    yield "load average", f"{low} to {high} before each case"
