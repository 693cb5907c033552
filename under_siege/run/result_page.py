"""Render the comparison as an HTML page."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from under_siege import formatting
from under_siege.compare import diff_table
from under_siege.compare.diff import ResultComparison
from under_siege.judge.case_names import at, cases_of, columned, in_plain_words, with_name
from under_siege.judge.ranking import Comparison
from under_siege.judge.requirement_check import judged
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED, OK
from under_siege.record.case import Case
from under_siege.record.record import Result
from under_siege.run.conclusion import answers, sweep_sentences
from under_siege.run.page_sections import sections
from under_siege.show.columns import NO_SERVER, Column, columns_for, name_in_table
from under_siege.show.html_page import page
from under_siege.show.notes import flags, footnote, load_tool_share, notes
from under_siege.show.requirement_outcomes import HEADINGS, in_short, lines
from under_siege.show.text_tables import TableCell

MOST_ROWS = 400


def as_html(comparison: Comparison, changes: ResultComparison | None = None) -> str:
    """Return the page; if `changes` is given, its comparison of two revisions replaces the recommendation."""
    result, found = comparison.result, judged(comparison) if changes is None else changes.required
    ordered, found_answers = comparison.by_rank(), answers(comparison) if changes is None else []
    sentences = sweep_sentences(comparison) if changes is None else [diff_table.conclusion(changes)]
    columns = columns_for([summary for summary in ordered if summary.verdict != FAILED], wide=True)
    differing = columned(cases_of(comparison.cases))
    return page(
        "template.html",
        result,
        heading=_heading(result),
        noun=comparison.noun,
        answer=[answer.headline for answer in found_answers] if changes is None else sentences,
        answers=found_answers,
        details=list(sentences),
        changes=diff_table.grid_of(changes) if changes else None,
        legend=diff_table.legend(changes) if changes else [],
        rows=[
            _row(summary, comparison, columns, differing, [answer.case for answer in found_answers])
            for summary in ordered[:MOST_ROWS]
        ],
        left_out=max(0, len(ordered) - MOST_ROWS),
        caption=" · ".join(footnote(comparison)[:-1]).replace("* not", "★ not") if ordered else "",
        columns=columns,
        differing=differing,
        required=lines(found),
        required_in_short=in_short(found),
        required_headings=HEADINGS,
        notes=list(_notes(comparison)),
        sections=list(sections(comparison)),
        facts=list(_facts(comparison)),
        flags=[
            f"{verdict}: {', '.join(names)}: {message}"
            for verdict, names, message in flags(ordered[:MOST_ROWS], comparison.cases)
        ],
    )


def _notes(comparison: Comparison) -> Iterator[str]:
    """Yield the text of each note; add plain names to servers that have no row in the table."""
    plain = {
        case.server: with_name(in_plain_words(case.server, case.title), case.server)
        for case in comparison.result.left_out
    }
    for names, note in notes(comparison):
        yield f"{', '.join(plain.get(name, name) for name in names.split(', '))}: {note}"


def _heading(result: Result) -> str:
    if result.suite is not None and (result.records or result.traces or result.profiles):
        return result.suite.title
    if result.profiles and not (result.records or result.traces):
        return "What blocks each server?"
    tasks = list(dict.fromkeys(str(each.values.get("task") or "") for each in (*result.records, *result.traces)))
    if not tasks:
        return "Nothing was measured"
    listed = tasks[0] if len(tasks) == 1 else f"{', '.join(tasks[:-1])} and {tasks[-1]}"
    return f"Which concurrency strategy should run {listed}?"


def _row(
    summary: Summary,
    comparison: Comparison,
    columns: Sequence[Column],
    differing: Sequence[str],
    recommended: Sequence[Case | None],
) -> dict[str, Any]:
    is_failed = summary.verdict == FAILED
    cells = [TableCell("") if is_failed else column.cell(summary) for column in columns]
    return {
        "server": name_in_table(summary, comparison.ceilings),
        "rank": summary.rank or "",
        "is_recommended": summary.case in recommended,
        "plain": "no server" if summary.server == NO_SERVER else in_plain_words(summary.server, summary.title),
        "is_ceiling": summary in comparison.ceilings,
        "setting": [(name, value or "") for name, value in zip(differing, at(summary.case, differing), strict=True)],
        "cells": list(zip((column.name for column in columns), cells, strict=True)),
        "verdict": summary.verdict if summary.verdict != OK else "",
        "codes": ", ".join(reason.code.replace("_", " ") for reason in summary.reasons),
        "reasons": [reason.message for reason in summary.reasons],
    }


def _facts(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each fact that is needed to reproduce the result."""
    result, machine = comparison.result, comparison.result.environment
    yield "command", shlex.join(result.command)
    if comparison.cases or comparison.ceilings:
        conditions = [footnote(comparison)[-1], load_tool_share(result), f"seed {result.seed}"]
        yield "conditions", " · ".join(filter(None, conditions))
    yield "CPU", f"{machine.cpu_model}, {machine.usable_cpus} of {machine.cpus} CPUs"
    yield "memory", f"{machine.memory_bytes / 1e9:.0f} GB"
    yield "system", machine.system
    for version, build in machine.pythons.items():
        yield f"Python {version}", build
    packages_of = machine.packages_of or {"": machine.packages}
    for python, packages in packages_of.items():
        name = f"packages of Python {python}" if len(packages_of) > 1 else "packages"
        yield name, ", ".join(f"{package} {version}" for package, version in packages.items())
    yield from ((tool, version) for tool, version in machine.tools.items() if version)
    if result.records:
        started = next((record for record in result.records if record.tool_command), result.records[0])
        yield f"{started.tool} command", shlex.join(started.tool_command)
        averages = [record.load_average for record in result.records]
        low, high = (formatting.significant(value, 2) for value in (min(averages), max(averages)))
        yield "load average", f"{low} to {high} before each case"
    if machine.commit:
        yield "Under Siege", f"commit {machine.commit}"
