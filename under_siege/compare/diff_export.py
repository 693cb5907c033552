"""Output formats of a comparison of two results: a table for the terminal, Markdown, JSON.

The JSON:

    {schema, base, new, judgement, exit_code, has_common_speed, cases, requirements}
    base, new: {schema, command, began_at, environment} of the result
    has_common_speed: whether the machine's own change of speed could be taken out

Each case:

    {server, task, users, python, parameters, before, now, judgement, speed_ratio, figures}
    before, now: null where it was not measured, else {verdict, reasons: [{code, message}], workers, rounds}
    judgement: worse, failed, gone, undecided, better, no difference, new
    speed_ratio: how fast the machine was now, as a multiple of before; null where that isn't known
    figures: {rate_per_s, ping_p99_s, cpu_s_per_transaction, memory_bytes}

Each figure; what isn't known is null:

    {base, new, change, low, high, p, smallest_visible, judgement}
    base, new: as `report` shows them
    change, low, high: a fraction (-0.5 is half of it), and its own 95 % confidence interval, both at one speed
    p: adjusted for all tests of the comparison (Holm); under 0.05 it is more than noise
    smallest_visible: the smallest change that could have been told from noise among so many tests, as a fraction
    judgement: better, worse, no difference, undecided; null where a side is missing or can't be trusted

Each requirement is as `report` has it; with `of_base` its figures are multiples of what the base had.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

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
from under_siege.model.record import SCHEMA, Result
from under_siege.report import columns
from under_siege.report.labels import at, full_name, varying
from under_siege.report.markdown_table import plain, required_as_markdown, row
from under_siege.report.split_table import fitting
from under_siege.report.threshold_text import required_as_data, required_as_table
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


VISIBLE = "could have seen"
_STYLES = {WORSE: "bold red", FAILED: "red", GONE: "red", BETTER: "bold green", UNDECIDED: "yellow"}


def as_table(compared: Compared) -> RenderableType:
    """For a terminal, as wide as that is."""
    sheet = sheet_of(compared)
    return Group(
        *([Text(sheet.doubt, style="yellow")] if sheet.doubt else []),
        *(Text(f"{paragraph}\n") for paragraph in sheet.above),
        _Figures(sheet),
        *required_as_table(compared.required),
        *([Text()] if sheet.remarks else []),
        *map(Text, sheet.remarks),
        Text("\n" + "\n".join(sheet.legend), style="dim"),
    )


class _Figures:
    """One table, or several where the terminal is too narrow for one: no figure is ever cut."""

    def __init__(self, sheet: Sheet) -> None:
        self._sheet = sheet

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from fitting(console, options, len(self._sheet.figures), self._table)

    def _table(self, part: slice) -> Table:
        sheet = self._sheet
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
        for heading in sheet.names:
            table.add_column(heading, no_wrap=True)
        for heading in sheet.figures[part]:
            table.add_column(heading, justify="right", no_wrap=True)
        for line in sheet.lines:
            names = [Text(name, style=_STYLES.get(line.judgement, "")) for name in line.names]
            table.add_row(*names, *map(_styled, line.figures[part]))
        if any(sheet.visible):
            blank = [""] * (len(sheet.names) - 1)
            table.add_row(*(Text(text, style="dim") for text in [VISIBLE, *blank, *sheet.visible[part]]))
        return table


def _styled(cell: Cell) -> Text:
    return Text(cell.text, style=_STYLES.get(cell.judgement or "", ""))


def as_markdown(compared: Compared) -> str:
    """For a comment on a pull request."""
    sheet = sheet_of(compared)
    parts = [
        f"**{plain(sheet.doubt)}**" if sheet.doubt else "",
        *map(plain, sheet.above),
        "\n".join(_rows(sheet)),
        required_as_markdown(compared.required),
        "\n".join(f"- {plain(remark)}" for remark in sheet.remarks),
        "<br>".join(f"<sub>{plain(line)}</sub>" for line in sheet.legend),
    ]
    return "\n\n".join(filter(None, parts))


def _rows(sheet: Sheet) -> list[str]:
    rows = [[*sheet.names, *sheet.figures], ["---"] * len(sheet.names) + ["---:"] * len(sheet.figures)]
    for line in sheet.lines:
        cells = [
            f"**{plain(cell.text)}**" if cell.judgement in (WORSE, BETTER) else plain(cell.text)
            for cell in line.figures
        ]
        rows.append([*map(plain, line.names), *cells])
    if any(sheet.visible):
        rows.append([VISIBLE, *[""] * (len(sheet.names) - 1), *sheet.visible])
    return list(map(row, rows))


def as_json(compared: Compared) -> str:
    """For programs; the keys stand at the top of this module."""
    judgements = {case.judgement for case in compared.cases}
    grave = next((one for one in (FAILED, GONE, WORSE, UNDECIDED, BETTER) if one in judgements), "no difference")
    told = {
        "schema": SCHEMA,
        "base": _result(compared.base),
        "new": _result(compared.new),
        "judgement": grave,
        "exit_code": compared.exit_code,
        "has_common_speed": compared.has_common_speed,
        "cases": [_case(case) for case in compared.cases],
        "requirements": required_as_data(compared.required),
    }
    return msgspec.json.format(msgspec.json.encode(told), indent=2).decode()


def _result(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in ("schema", "command", "began_at", "environment")}


def _case(case: Pair) -> dict[str, Any]:
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
        "figures": {change.figure.name: _figure(change) for change in case.changes},
    }


def _side(summary: Summary | None) -> dict[str, Any] | None:
    names = ("verdict", "reasons", "workers", "rounds")
    return None if summary is None else {name: getattr(summary, name) for name in names}


def _figure(change: Change) -> dict[str, float | str | None]:
    low, high = change.interval or (None, None)
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


def dressed(compared: Compared, dress: str) -> str:
    """As `markdown` or `json`."""
    return {"markdown": as_markdown, "json": as_json}[dress](compared)
