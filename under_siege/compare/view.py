"""Show what changed between two results, or between two revisions in one result.

The JSON object:

    {schema, base, new, judgement, exit_code, has_common_speed, tolerance, cases, requirements}
    base, new: {schema, command, began_at, environment} of the result
    has_common_speed: whether the changes are speed-adjusted
    tolerance: by which share a metric may get worse

Each case:

    {server, task, users, python, parameters, before, now, judgement, speed_ratio, figures}
    before, now: {verdict, reasons: [{code, message}], workers, rounds}; null if the case was not measured
    judgement: worse, failed, gone, undecided, tolerated, better, no difference, new
    speed_ratio: speed of the machine now divided by its speed before; null if unknown
    figures: {rate_per_s, ping_p99_s, cpu_s_per_transaction, memory_bytes}

Each figure, with null for unknown values:

    {base, new, change, low, high, p, smallest_visible, judgement}
    base, new: the means over all rounds, at the same CPU speed
    change, low, high: the relative change from base to new (-0.5 means half), and its 95 % confidence interval
    p: p-value corrected for all tests of the comparison (Bonferroni); a change is significant if p < 0.05
    smallest_visible: the smallest relative change that would have been significant
    judgement: better, worse, tolerated, no difference, undecided; null if a case is missing or not `ok`, or if both
        values are null

Requirements have the same keys as in `report`; with `of_base`, their values are multiples of the base.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from under_siege import formatting
from under_siege.compare.diff import (
    BETTER,
    FIGURES,
    GONE,
    NEW,
    SAME,
    TOLERATED,
    UNDECIDED,
    WORSE,
    CasePair,
    MetricChange,
    ResultComparison,
    machine_difference,
)
from under_siege.judge.estimates import ACCURACY
from under_siege.judge.metrics import METRICS
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED, OK
from under_siege.record.case import REVISION, axis
from under_siege.record.result import SCHEMA
from under_siege.show.case_names import CaseNames, at
from under_siege.show.columns import noun, text_of, with_first_text
from under_siege.show.conditions import identity
from under_siege.show.notes import footnote, notes
from under_siege.show.requirement_outcomes import required_as_data, required_table
from under_siege.show.view import Cell, Column, Note, Paragraph, Row, Table, Tone, View

LEGEND = (
    "before → now (change): means over all rounds, at the same CPU speed; of ping p99, means over half sieges",
    "better, worse: a change of more than 2 % that is significant at 5 % for all tests together (Bonferroni)",
)
UNDECIDED_LEGEND = "?: undecided: only one round, a missing value, or a change that may be due to the machine's speed"
SHARPER = "to compare two revisions, measure both in one run with --against"
MISSING = "-"
VISIBLE = "detectable change"
_MARKS = {WORSE: "worse", BETTER: "better", TOLERATED: "tolerated", UNDECIDED: "?"}
_TONES = {WORSE: Tone.WORST, FAILED: Tone.BAD, GONE: Tone.BAD, BETTER: Tone.GOOD, UNDECIDED: Tone.WARNING}


def view(comparison: ResultComparison) -> View:
    """Return the view of a comparison."""
    difference = machine_difference(comparison.base, comparison.new)
    doubt = [Paragraph(f"Warning: {difference}.", tone=Tone.WARNING)] if difference else []
    return View(
        title="What changed?",
        headline=[*doubt, Paragraph(conclusion(comparison), is_main=True)],
        tables=[table_of(comparison), required_table(comparison.required)],
        notes=list(_notes(comparison)),
        footnotes=list(_legend(comparison)),
        data=_data(comparison),
        exit_code=comparison.exit_code,
    )


def _legend(comparison: ResultComparison) -> Iterator[str]:
    """Yield how to read the table and, if a single run measured both revisions, their names and the conditions."""
    yield from LEGEND
    if comparison.permitted:
        share = formatting.share(comparison.permitted)
        yield f"tolerated: a change for the worse that is not significantly larger than {share}"
    if (whole := comparison.in_one_run) is not None:
        values = dict.fromkeys(str(summary.case.get(REVISION)) for summary in whole.cases)
        base = whole.result.suite.against if whole.result.suite else ""
        yield f"before: {base} · now: {', '.join(value for value in values if value != base)}"
        yield footnote(whole)[-1]
    if any(change.judgement == UNDECIDED for case in comparison.cases for change in case.changes):
        yield UNDECIDED_LEGEND


def table_of(comparison: ResultComparison) -> Table:
    """Return a table of each case's changes, and of the smallest changes that would have been significant."""
    axes = CaseNames(comparison.cases).axes
    flagged = any(_verdicts(case) for case in comparison.cases)
    names = [noun(comparison.new), *axes, *(["verdict"] if flagged else [])]
    rows = []
    for case in comparison.cases:
        texts = [case.case.server, *(str(value or "") for value in at(case.case, axes))]
        texts += [_verdicts(case)] if flagged else []
        tone = _TONES.get(case.judgement, Tone.PLAIN)
        rows.append(Row([*(Cell(text, tone) for text in texts), *map(_cell, case.changes)]))
    visible = [_visible(list(changes)) for changes in zip(*(case.changes for case in comparison.cases), strict=True)]
    if any(visible):
        rows.append(Row([Cell(text) for text in (VISIBLE, *[""] * (len(names) - 1), *visible)], Tone.QUIET))
    columns = [Column(name, is_text=True) for name in names]
    columns += [Column(_heading(figure, comparison)) for figure in comparison.figures]
    return Table("changes", "What changed", columns, rows)


def _heading(figure: str, comparison: ResultComparison) -> str:
    name = METRICS[figure].heading(of_streams=comparison.figures != FIGURES)
    return with_first_text(name, [side for pair in comparison.cases for side in (pair.base, pair.new) if side])


def percent(fraction: float) -> str:
    """Format a relative change as a percentage, such as `+3 %` or `-50 %`, but never `-0 %`."""
    return f"{round(100 * fraction) + 0:+d} %"


def _verdicts(case: CasePair) -> str:
    """Return both verdicts, such as `ok → suspect`; one if they are equal; or an empty string if both are `ok`."""
    before, now = (MISSING if side is None else side.verdict for side in (case.base, case.new))
    if before != now:
        return f"{before} → {now}"
    return "" if now == OK else now


def _cell(change: MetricChange) -> Cell:
    """Return a cell such as `52.4 → 26.1 (-50 %) worse`, or an empty cell if neither result has the metric."""
    metric = METRICS[change.figure]
    texts = ["" if value is None else metric.unit.text(value) for value in change.values]
    if change.change is None:
        texts = ["" if case is None else text_of(metric, case) for case in (change.base, change.new)]
    if not any(texts):
        return Cell()
    values = " → ".join(text or MISSING for text in texts)
    fraction = "" if change.fraction is None else f"({percent(change.fraction)})"
    judgement = change.judgement or ""
    text = " ".join(filter(None, [values, fraction, _MARKS.get(judgement)]))
    return Cell(text, _TONES.get(judgement, Tone.PLAIN))


def _visible(changes: list[MetricChange]) -> str:
    sizes = [change.smallest_visible for change in changes if change.smallest_visible is not None]
    return formatting.span([min(sizes), max(sizes)], _size) if sizes else ""


def _size(fraction: float) -> str:
    """Format a relative change as a percentage, such as `7 %`, or as a factor, such as `x 12`, if it exceeds 100 %."""
    return formatting.share(fraction) if fraction <= 1 else f"x {formatting.significant(1 + fraction, 2)}"


def conclusion(comparison: ResultComparison) -> str:
    """Return one sentence for each judgement: what is gone or failed, then the changes, the largest first."""
    cases, names = comparison.cases, CaseNames(comparison.cases)
    equal = sum(case.judgement == SAME for case in comparison.cases)
    if equal == len(cases):
        size = _visible([change for case in comparison.cases for change in case.changes[:1]])
        would = (
            f" A change of {size} in {_heading(comparison.figures[0], comparison)} would be detected." if size else ""
        )
        return f"No significant changes.{would}"

    def named(*judgements: str) -> Iterator[str]:
        for judgement in judgements:
            if same := [names.full(case.case) for case in cases if case.judgement == judgement]:
                yield f"{judgement.capitalize()}: {'; '.join(same)}."

    parts = [*named(GONE, FAILED), *_sentences_of_changes(comparison), *named(UNDECIDED, NEW)]
    if equal:
        parts.append(f"No significant difference in {equal} of {len(cases)} cases.")
    return " ".join(parts)


def _sentences_of_changes(comparison: ResultComparison) -> list[str]:
    """Return a sentence for each judgement of significant changes, the largest change first."""
    names = CaseNames(comparison.cases)
    found: dict[str, dict[str, list[str]]] = {}  # texts of the changes by judgement and case
    known = [
        (abs(math.log1p(change.fraction)), names.full(pair.case), change)
        for pair in comparison.cases
        for change in pair.changes
        if change.judgement in (BETTER, WORSE, TOLERATED) and change.fraction is not None
    ]
    for _, name, change in sorted(known, key=lambda entry: -entry[0]):
        text = f"{_heading(change.figure, comparison)} {percent(change.fraction or 0.0)}"
        found.setdefault(change.judgement or "", {}).setdefault(name, []).append(text)
    for pair in comparison.cases:
        if pair.judgement == BETTER and pair.base and pair.base.verdict == FAILED:
            found.setdefault(BETTER, {})[names.full(pair.case)] = ["failed before"]
    sentences = []
    for judgement, of_judgement in found.items():
        changes = "; ".join(f"{name} ({', '.join(texts)})" for name, texts in of_judgement.items())
        sentences.append(f"{judgement.capitalize()}: {changes}.")
    return sentences


def _notes(comparison: ResultComparison) -> Iterator[Note]:
    names = CaseNames(comparison.cases)
    for case in comparison.cases:
        name = names.full(case.case)
        for when, reasons in _flags(case):
            yield from (Note("note", name, f"{when}: {reason}") for reason in reasons)
        if case.base is None or case.new is None:
            yield Note("note", name, f"not measured {'before' if case.base is None else 'now'}")
        else:
            yield from (Note("note", name, remark) for remark in _changed_settings(case.base, case.new))
    if comparison.in_one_run is not None:
        yield from (Note("note", where, note) for where, note in notes(comparison.in_one_run))
    yield from (Note("note", "machine", remark) for remark in _speed_remarks(comparison))
    yield from (Note("note", "noise", remark) for remark in _noise_remarks(comparison))


def _flags(case: CasePair) -> Iterator[tuple[str, list[str]]]:
    """Yield the verdict and its reasons for each result in which the case was not `ok`."""
    sides = [("before", case.base), ("now", case.new)]
    if case.base and case.new and (case.base.verdict, case.base.reasons) == (case.new.verdict, case.new.reasons):
        sides = [("before and now", case.new)]
    for when, side in sides:
        if side and side.verdict != OK:
            yield f"{side.verdict} {when}", [reason.message for reason in side.reasons]


def _changed_settings(base: Summary, new: Summary) -> Iterator[str]:
    if base.workers != new.workers and FAILED not in (base.verdict, new.verdict):
        had = axis("workers").label(base.workers) if base.workers else "an unknown number of workers"
        yield f"had {had} before and {new.workers or 'an unknown number'} now"
    if base.memory_kind != new.memory_kind and base.memory_kind and new.memory_kind:
        yield f"memory was measured as {base.memory_kind.upper()} before, and as {new.memory_kind.upper()} now"


def _speed_remarks(comparison: ResultComparison) -> Iterator[str]:
    both = [case for case in comparison.cases if case.base and case.new]
    if both and not comparison.has_common_speed:
        yield f"its speeds in the two runs can't be compared, so only memory is judged; {SHARPER}"
    ratios = sorted(case.speed_ratio for case in both if case.speed_ratio is not None)
    if not ratios or max(abs(math.log(ratio)) for ratio in ratios) <= ACCURACY:
        return
    faster = f"now {formatting.span(ratios, formatting.significant)} times as fast as before"
    if any(change.may_be_due_to_speed for case in both for change in case.changes):
        yield f"{faster}, which may explain the changes marked with ?; {SHARPER}"
    else:
        yield f"{faster}; rates and CPU times are adjusted to the same speed"


def _noise_remarks(comparison: ResultComparison) -> Iterator[str]:
    if any(side and side.rounds < 2 for case in comparison.cases for side in (case.base, case.new)):
        yield "one round is enough only for a large change of the rate; for smaller ones, use --rounds 3 or more"


def _data(comparison: ResultComparison) -> dict[str, Any]:
    judgements = {case.judgement for case in comparison.cases}
    worst = next((name for name in (FAILED, GONE, WORSE, UNDECIDED, TOLERATED, BETTER) if name in judgements), SAME)
    return {
        "schema": SCHEMA,
        "base": identity(comparison.base),
        "new": identity(comparison.new),
        "judgement": worst,
        "exit_code": comparison.exit_code,
        "has_common_speed": comparison.has_common_speed,
        "tolerance": comparison.permitted,
        "cases": [_case(case) for case in comparison.cases],
        "requirements": required_as_data(comparison.required),
    }


def _case(case: CasePair) -> dict[str, Any]:
    return {
        **{name: getattr(case.case, name) for name in ("server", "task", "users", "python", "parameters")},
        "before": _side(case.base),
        "now": _side(case.new),
        "judgement": case.judgement,
        "speed_ratio": case.speed_ratio,
        "figures": {change.figure: _figure(change) for change in case.changes},
    }


def _side(summary: Summary | None) -> dict[str, Any] | None:
    names = ("verdict", "reasons", "workers", "rounds")
    return None if summary is None else {name: getattr(summary, name) for name in names}


def _figure(change: MetricChange) -> dict[str, float | str | None]:
    low, high = (change.change and change.change.interval) or (None, None)
    return {
        "base": change.values[0],
        "new": change.values[1],
        "change": change.fraction,
        "low": low,
        "high": high,
        "p": change.p,
        "smallest_visible": change.smallest_visible,
        "judgement": change.judgement,
    }
