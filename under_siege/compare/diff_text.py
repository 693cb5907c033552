"""The words of a comparison of two results: one sheet for every dress that it is shown in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from under_siege import formatting
from under_siege.analysis.summary import Summary
from under_siege.checks.verdict import FAILED, OK
from under_siege.compare.diff import (
    BETTER,
    FIGURES,
    GONE,
    NEW,
    SAME,
    UNDECIDED,
    WORSE,
    Change,
    Compared,
    Figure,
    Pair,
    other_machine,
)
from under_siege.model.case import Case, axis
from under_siege.report import columns
from under_siege.report.labels import at, full_name, varying
from under_siege.stats.estimates import ACCURACY

LEGEND = (
    "before → now as the tables of the two results show it; the change in % is that of the mean over the rounds",
    "better and worse: more than 2 %, and more than noise: at 5 % for all tests of this comparison together (Holm)",
)
AT_ONE_SPEED = ("rate_per_s", "cpu_s_per_transaction")
NOTHING = "-"
_MARKS = {WORSE: "worse", BETTER: "better", UNDECIDED: "?"}


@dataclass(frozen=True, slots=True)
class Cell:
    """What became of a figure: its text, and what is to be thought of it."""

    text: str
    judgement: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A case."""

    names: list[str]
    figures: list[Cell]
    judgement: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """The comparison as text."""

    above: list[str]  # what it comes to
    doubt: str  # why it perhaps should not have been made; empty if nothing speaks against it
    names: list[str]  # headings
    figures: list[str]  # headings
    lines: list[Line]
    visible: list[str]  # for each figure the smallest change that could have been seen
    remarks: list[str]
    legend: list[str]


def sheet_of(compared: Compared) -> Sheet:
    """What there is to be read."""
    doubt = other_machine(compared.base, compared.new)
    cases = [pair.case for pair in compared.cases]
    axes = varying(cases)
    flagged = any(_verdicts(case) for case in compared.cases)
    return Sheet(
        [_conclusion(compared)],
        f"Compared although {doubt}." if doubt else "",
        ["server" if compared.new.suite else "strategy", *axes, *(["verdict"] if flagged else [])],
        [column_of(figure).name for figure in FIGURES],
        [_line(case, axes, flagged=flagged) for case in compared.cases],
        [_visible([case.changes[place] for case in compared.cases]) for place in range(len(FIGURES))],
        list(_remarks(compared, cases)),
        [*LEGEND, *(["? one round can't tell, or a figure is missing"] if _is_open(compared) else [])],
    )


def column_of(figure: Figure) -> columns.Column:
    """That shows the figure in the table of a result."""
    return next(column for column in columns.FIGURES if column.figure == figure.name)


def percent(fraction: float) -> str:
    """`+3 %`, `-50 %`; never `-0 %`."""
    return f"{round(100 * fraction) + 0:+d} %"


def _is_open(compared: Compared) -> bool:
    return any(change.judgement == UNDECIDED for case in compared.cases for change in case.changes)


def _line(case: Pair, axes: list[str], *, flagged: bool) -> Line:
    names = [case.case.server, *(str(value or "") for value in at(case.case, axes))]
    return Line(names + [_verdicts(case)] * flagged, [_cell(change) for change in case.changes], case.judgement)


def _verdicts(case: Pair) -> str:
    """Before and now, where they are not both `ok`."""
    before, now = (NOTHING if side is None else side.verdict for side in (case.base, case.new))
    return "" if before == now == OK else before if before == now else f"{before} → {now}"


def _cell(change: Change) -> Cell:
    """Such as `52.4 → 26.1 (-50 %) worse`; empty where there is no such figure on either side."""
    texts = ["" if case is None else column_of(change.figure).text(case) for case in (change.base, change.new)]
    if not any(texts):
        return Cell("")
    shown = " → ".join(text or NOTHING for text in texts)
    words = [shown, f"({percent(change.fraction)})" if change.fraction is not None else ""]
    return Cell(" ".join(filter(None, [*words, _MARKS.get(change.judgement or "", "")])), change.judgement)


def _visible(changes: list[Change]) -> str:
    """The range over all cases."""
    seen = [change.smallest_visible for change in changes if change.smallest_visible is not None]
    if not seen:
        return ""
    least, most = (_size(edge) for edge in (min(seen), max(seen)))
    return least if least == most else f"{least} to {most}"


def _size(fraction: float) -> str:
    """`7 %`, or `x 12` where it is more than a doubling."""
    return formatting.share(fraction) if fraction <= 1 else f"x {formatting.significant(1 + fraction, 2)}"


def _conclusion(compared: Compared) -> str:
    """What happened to whom, the gravest first."""
    told = {GONE: "Gone", FAILED: "Failed", WORSE: "Worse", UNDECIDED: "Undecided", BETTER: "Better", NEW: "New"}
    cases = [pair.case for pair in compared.cases]
    parts = []
    for judgement, word in told.items():
        found = [case for case in compared.cases if case.judgement == judgement]
        names = [full_name(pair.case, cases) + _what(pair) for pair in found]
        parts += [f"{word}: {'; '.join(names)}."] if found else []
    equal = sum(case.judgement == SAME for case in compared.cases)
    if equal == len(compared.cases):
        return "Nothing changed by more than noise."
    return " ".join([*parts, f"No difference beyond noise: {equal} of {len(compared.cases)}."] if equal else parts)


def _what(case: Pair) -> str:
    """The figures that a case is judged by."""
    figures = [column_of(change.figure).name for change in case.changes if change.judgement == case.judgement]
    return f" ({', '.join(figures)})" if figures else ""


def _remarks(compared: Compared, cases: list[Case]) -> Iterator[str]:
    """What can't be a row of figures."""
    for case in compared.cases:
        name = full_name(case.case, cases)
        for when, reasons in _flags(case):
            yield from (f"{name}: {when}: {reason}" for reason in reasons)
        if case.base is None or case.new is None:
            yield f"{name}: was not measured {'before' if case.base is None else 'now'}"
        else:
            yield from (f"{name}: {remark}" for remark in _of_both(case.base, case.new))
    yield from _of_the_speed(compared)
    yield from _of_the_noise(compared, cases)


def _flags(case: Pair) -> Iterator[tuple[str, list[str]]]:
    """When it was not `ok`, and why."""
    told = [
        (side.verdict, [reason.message for reason in side.reasons]) if side and side.verdict != OK else None
        for side in (case.base, case.new)
    ]
    if told[0] is not None and told[0] == told[1]:
        yield f"{told[0][0]} before and now", told[0][1]
        return
    for found, when in zip(told, ("before", "now"), strict=True):
        if found is not None:
            yield f"{found[0]} {when}", found[1]


def _of_both(base: Summary, new: Summary) -> Iterator[str]:
    if base.workers != new.workers:
        had = axis("workers").told(base.workers) if base.workers else "an unknown number of workers"
        yield f"had {had} before and {new.workers or 'unknown'} now"
    if base.memory_kind != new.memory_kind and base.memory_kind and new.memory_kind:
        yield f"its memory was {base.memory_kind.upper()} before and is {new.memory_kind.upper()} now"


def _of_the_speed(compared: Compared) -> Iterator[str]:
    """Whether what is seen is the server or the machine."""
    both = [case for case in compared.cases if case.base and case.new]
    if not both:
        return
    if not compared.has_common_speed:
        yield "How fast the machine was can't be compared: where it was faster or slower now, that is in these changes."
        return
    corrected = [change for case in both for change in case.changes if _is_corrected(change)]
    ratios = sorted(case.speed_ratio for case in both if case.speed_ratio is not None)
    if corrected and ratios:
        low, high = (formatting.significant(edge) for edge in (ratios[0], ratios[-1]))
        factor = low if low == high else f"{low} to {high}"
        yield (
            f"The machine was {factor} times as fast now as before; "
            "as far as a figure follows that, it is taken out of the change in %."
        )


def _of_the_noise(compared: Compared, cases: list[Case]) -> Iterator[str]:
    """Where a comparison says little, and what would make it say more."""
    if any(side and side.rounds < 2 for case in compared.cases for side in (case.base, case.new)):
        yield "One round can't tell a change from noise: measure both with --rounds 3 or more."
    for figure in FIGURES:
        blind = [
            full_name(case.case, cases)
            for case in compared.cases
            for change in case.changes
            if change.figure == figure and (change.smallest_visible or 0) > 1
        ]
        if blind:
            names = "; ".join(blind)
            yield f"Not even a doubling of {column_of(figure).name} could have been seen: {names}. Take more rounds."


def _is_corrected(change: Change) -> bool:
    base, new = change.values
    if change.figure.name not in AT_ONE_SPEED or change.ratio is None or not base or not new:
        return False
    return abs(float(np.log(new / base)) - change.ratio.log) > ACCURACY
