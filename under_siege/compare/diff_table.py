"""Format a comparison of two results as a table for a terminal, as Markdown and as JSON.

The JSON object:

    {schema, base, new, judgement, exit_code, has_common_speed, cases, requirements}
    base, new: {schema, command, began_at, environment} of the result
    has_common_speed: whether the changes are speed-adjusted

Each case:

    {server, task, users, python, parameters, before, now, judgement, speed_ratio, figures}
    before, now: {verdict, reasons: [{code, message}], workers, rounds}; null if the case was not measured
    judgement: worse, failed, gone, undecided, better, no difference, new
    speed_ratio: speed of the machine now divided by its speed before; null if unknown
    figures: {rate_per_s, ping_p99_s, cpu_s_per_transaction, memory_bytes}

Each figure, with null for unknown values:

    {base, new, change, low, high, p, smallest_visible, judgement}
    base, new: the means over all rounds, at the same CPU speed
    change, low, high: the relative change from base to new (-0.5 means half), and its 95 % confidence interval
    p: p-value corrected for all tests of the comparison (Holm); a change is significant if p < 0.05
    smallest_visible: the smallest relative change that would have been significant
    judgement: better, worse, no difference, undecided; null if a case is missing or not `ok`, or both values are null

Requirements have the same keys as in `report`; with `of_base`, their values are multiples of the base.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from under_siege import formatting
from under_siege.compare.diff import (
    BETTER,
    FIGURES,
    GONE,
    NEW,
    SAME,
    UNDECIDED,
    WORSE,
    CasePair,
    MetricChange,
    ResultComparison,
    machine_difference,
)
from under_siege.judge.case_names import at, full_name, varying
from under_siege.judge.estimates import ACCURACY
from under_siege.judge.metrics import METRICS, SPEED_CORRECTED
from under_siege.judge.summary import Summary
from under_siege.judge.verdict_rules import FAILED, OK
from under_siege.record.case import REVISION, Case, axis
from under_siege.record.record import SCHEMA, Result
from under_siege.show.columns import text_of
from under_siege.show.notes import footnote, notes
from under_siege.show.requirement_outcomes import required_as_data, required_as_markdown, required_as_table
from under_siege.show.text_tables import Grid, Heading, TableCell, plain, small_print

LEGEND = (
    "before → now (change): means over all rounds, at the same CPU speed; of ping p99, means over half sieges",
    "better, worse: a change of more than 2 % that is significant at 5 % after Holm's correction for multiple testing",
)
NOTHING = "-"
VISIBLE = "detectable change"
_MARKS = {WORSE: "worse", BETTER: "better", UNDECIDED: "?"}
_STYLES = {WORSE: "bold red", FAILED: "red", GONE: "red", BETTER: "bold green", UNDECIDED: "yellow"}


def as_table(comparison: ResultComparison) -> RenderableType:
    """Return the conclusion, a table of changes, and remarks for a terminal."""
    doubt, remarks = _doubt(comparison), list(_remarks(comparison))
    return Group(
        *([Text(doubt, style="yellow")] if doubt else []),
        Text(f"{conclusion(comparison)}\n"),
        grid_of(comparison),
        *required_as_table(comparison.required),
        *([Text()] if remarks else []),
        *map(Text, remarks),
        Text("\n" + "\n".join(legend(comparison)), style="dim"),
    )


def as_markdown(comparison: ResultComparison) -> str:
    """Return the comparison as Markdown, for example for a comment on a pull request."""
    doubt = _doubt(comparison)
    parts = [
        f"**{plain(doubt)}**" if doubt else "",
        plain(conclusion(comparison)),
        grid_of(comparison).as_markdown(),
        required_as_markdown(comparison.required),
        "\n".join(f"- {plain(remark)}" for remark in _remarks(comparison)),
        small_print(legend(comparison)),
    ]
    return "\n\n".join(filter(None, parts))


def _doubt(comparison: ResultComparison) -> str:
    """Return a warning about differences between the machines, or an empty string if there are none."""
    difference = machine_difference(comparison.base, comparison.new)
    return f"Warning: {difference}." if difference else ""


def legend(comparison: ResultComparison) -> list[str]:
    """Return the legend of the table, and the conditions of the measurement."""
    is_open = any(change.judgement == UNDECIDED for case in comparison.cases for change in case.changes)
    return [
        *LEGEND,
        *_conditions(comparison),
        *(["?: undecided, because there is only one round or a value is missing"] if is_open else []),
    ]


def _conditions(comparison: ResultComparison) -> Iterator[str]:
    """If a single run measured both revisions, yield their names and the conditions of the measurement."""
    if (whole := comparison.in_one_run) is not None:
        values = dict.fromkeys(str(summary.case.get(REVISION)) for summary in whole.cases)
        base = whole.result.suite.against if whole.result.suite else ""
        yield f"before: {base} · now: {', '.join(value for value in values if value != base)}"
        yield footnote(whole)[-1]


def grid_of(comparison: ResultComparison) -> Grid:
    """Return a table of each case's changes, and of the smallest changes that would have been significant."""
    axes = varying([pair.case for pair in comparison.cases])
    flagged = any(_verdicts(case) for case in comparison.cases)
    names = ["server" if comparison.new.suite else "strategy", *axes, *(["verdict"] if flagged else [])]
    rows = []
    for case in comparison.cases:
        labels = [case.case.server, *(str(value or "") for value in at(case.case, axes))]
        style = _STYLES.get(case.judgement, "")
        name_cells = [TableCell(label, style) for label in labels + [_verdicts(case)] * flagged]
        rows.append([*name_cells, *map(_cell, case.changes)])
    visible = [_visible([case.changes[index] for case in comparison.cases]) for index in range(len(FIGURES))]
    if any(visible):
        rows.append([TableCell(text, "dim") for text in (VISIBLE, *[""] * (len(names) - 1), *visible)])
    return Grid(names, [Heading(METRICS[figure].column) for figure in FIGURES], rows)


def percent(fraction: float) -> str:
    """Format a relative change as a percentage, such as `+3 %` or `-50 %`, but never `-0 %`."""
    return f"{round(100 * fraction) + 0:+d} %"


def _verdicts(case: CasePair) -> str:
    """Return both verdicts, such as `ok → suspect`; one if they are equal; or an empty string if both are `ok`."""
    before, now = (NOTHING if side is None else side.verdict for side in (case.base, case.new))
    return "" if before == now == OK else before if before == now else f"{before} → {now}"


def _cell(change: MetricChange) -> TableCell:
    """Return a cell such as `52.4 → 26.1 (-50 %) worse`, or an empty cell if neither result has the metric."""
    texts = [_value(change.figure, value) for value in change.values]
    if change.change is None:
        texts = ["" if case is None else text_of(METRICS[change.figure], case) for case in (change.base, change.new)]
    if not any(texts):
        return TableCell("")
    values = " → ".join(text or NOTHING for text in texts)
    fraction = "" if change.fraction is None else f"({percent(change.fraction)})"
    judgement = change.judgement or ""
    text = " ".join(filter(None, [values, fraction, _MARKS.get(judgement)]))
    return TableCell(text, _STYLES.get(judgement, ""), judgement in (WORSE, BETTER))


def _value(figure: str, value: float | None) -> str:
    return "" if value is None else METRICS[figure].unit.text(value)


def _visible(changes: list[MetricChange]) -> str:
    sizes = [change.smallest_visible for change in changes if change.smallest_visible is not None]
    return formatting.span([min(sizes), max(sizes)], _size) if sizes else ""


def _size(fraction: float) -> str:
    """Format a relative change as a percentage, such as `7 %`, or as a factor, such as `x 12`, if it exceeds 100 %."""
    return formatting.share(fraction) if fraction <= 1 else f"x {formatting.significant(1 + fraction, 2)}"


def conclusion(comparison: ResultComparison) -> str:
    """Return one sentence for each judgement: what is gone or failed, then the changes, the largest first."""
    cases = [pair.case for pair in comparison.cases]
    changes = _sentences_of_changes(comparison)
    named = {
        judgement: "; ".join(full_name(case.case, cases) for case in comparison.cases if case.judgement == judgement)
        for judgement in (GONE, FAILED, UNDECIDED, NEW)
    }
    equal = sum(case.judgement == SAME for case in comparison.cases)
    if equal == len(comparison.cases):
        rates = [change for case in comparison.cases for change in case.changes if change.figure == "rate_per_s"]
        found = (
            f" A change of {size} in {METRICS['rate_per_s'].column} would be detected."
            if (size := _visible(rates))
            else ""
        )
        return f"No significant changes.{found}"
    parts = [f"{judgement.capitalize()}: {named[judgement]}." for judgement in (GONE, FAILED) if named[judgement]]
    parts += changes
    parts += [f"{judgement.capitalize()}: {named[judgement]}." for judgement in (UNDECIDED, NEW) if named[judgement]]
    if equal:
        parts.append(f"No significant difference in {equal} of {len(comparison.cases)} cases.")
    return " ".join(parts)


def _sentences_of_changes(comparison: ResultComparison) -> list[str]:
    """Return a sentence about all significant changes for the better, and one for the worse, the largest first."""
    cases = [pair.case for pair in comparison.cases]
    found: dict[str, dict[str, list[str]]] = {}  # texts of the changes by judgement and case
    known = [
        (abs(math.log1p(change.fraction)), full_name(pair.case, cases), change)
        for pair in comparison.cases
        for change in pair.changes
        if change.judgement in (BETTER, WORSE) and change.fraction is not None
    ]
    for _, name, change in sorted(known, key=lambda entry: -entry[0]):
        text = f"{METRICS[change.figure].column} {percent(change.fraction or 0.0)}"
        found.setdefault(change.judgement or "", {}).setdefault(name, []).append(text)
    for pair in comparison.cases:
        if pair.judgement == BETTER and pair.base and pair.base.verdict == FAILED:
            found.setdefault(BETTER, {})[full_name(pair.case, cases)] = ["failed before"]
    sentences = []
    for judgement, of_judgement in found.items():
        names = "; ".join(f"{name} ({', '.join(texts)})" for name, texts in of_judgement.items())
        sentences.append(f"{judgement.capitalize()}: {names}.")
    return sentences


def _remarks(comparison: ResultComparison) -> Iterator[str]:
    cases = [pair.case for pair in comparison.cases]
    for case in comparison.cases:
        name = full_name(case.case, cases)
        for when, reasons in _flags(case):
            yield from (f"{name}: {when}: {reason}" for reason in reasons)
        if case.base is None or case.new is None:
            yield f"{name}: not measured {'before' if case.base is None else 'now'}"
        else:
            yield from (f"{name}: {remark}" for remark in _changed_settings(case.base, case.new))
    if comparison.in_one_run is not None:
        yield from (f"{where}: {note}" for where, note in notes(comparison.in_one_run))
    yield from _speed_remarks(comparison)
    yield from _noise_remarks(comparison, cases)


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
        yield "The machine speeds of the two runs can't be compared, so the changes are not speed-adjusted."
    ratios = sorted(case.speed_ratio for case in both if case.speed_ratio is not None)
    if ratios and any(_is_corrected(change) for case in both for change in case.changes):
        times = formatting.span(ratios, formatting.significant)
        yield f"The machine is now {times} times as fast as before; all values are adjusted to the same speed."


def _noise_remarks(comparison: ResultComparison, cases: list[Case]) -> Iterator[str]:
    """Yield remarks that name the metrics that are too noisy, and explain how to measure them more precisely."""
    if any(side and side.rounds < 2 for case in comparison.cases for side in (case.base, case.new)):
        yield "One round is not enough to tell a change from noise: measure again with --rounds 3 or more."
    for figure in FIGURES:
        pairs = [(case, change) for case in comparison.cases for change in case.changes if change.figure == figure]
        blind = [
            full_name(case.case, cases)
            for case, change in pairs
            if change.judgement == SAME and (change.smallest_visible or 0) > 1
        ]
        if names := "; ".join(blind):
            yield f"Too noisy to detect even a doubling of {METRICS[figure].column}: {names}. Measure more rounds."


def _is_corrected(change: MetricChange) -> bool:
    base, new = change.as_measured
    if change.figure not in SPEED_CORRECTED or change.change is None or not base or not new:
        return False
    return abs(math.log(new / base) - change.change.ratio.log) > ACCURACY


def as_json(comparison: ResultComparison) -> str:
    """Return the comparison as JSON, with the keys that the docstring of this module lists."""
    return msgspec.json.format(msgspec.json.encode(as_data(comparison)), indent=2).decode()


def as_data(comparison: ResultComparison) -> dict[str, Any]:
    judgements = {case.judgement for case in comparison.cases}
    worst = next((name for name in (FAILED, GONE, WORSE, UNDECIDED, BETTER) if name in judgements), "no difference")
    return {
        "schema": SCHEMA,
        "base": _result(comparison.base),
        "new": _result(comparison.new),
        "judgement": worst,
        "exit_code": comparison.exit_code,
        "has_common_speed": comparison.has_common_speed,
        "cases": [_case(case) for case in comparison.cases],
        "requirements": required_as_data(comparison.required),
    }


def _result(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in ("schema", "command", "began_at", "environment")}


def _case(case: CasePair) -> dict[str, Any]:
    return {
        "server": case.case.server,
        "task": case.case.task,
        "users": case.case.users,
        "python": case.case.python,
        "parameters": case.case.parameters,
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
        "p": change.step.adjusted if change.step else None,
        "smallest_visible": change.smallest_visible,
        "judgement": change.judgement,
    }


def formatted(comparison: ResultComparison, output_format: str) -> str:
    """Return the comparison as `markdown` or `json`."""
    return {"markdown": as_markdown, "json": as_json}[output_format](comparison)
