"""The dresses of a comparison of two results: a table, Markdown, JSON.

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

from typing import Any

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from under_siege.analysis.summary import Summary
from under_siege.checks.verdict import FAILED
from under_siege.compare.diff import BETTER, GONE, UNDECIDED, WORSE, Change, Compared, Pair
from under_siege.compare.diff_text import Cell, Sheet, sheet_of
from under_siege.model.record import SCHEMA, Result
from under_siege.report.markdown_table import plain, required_as_markdown, row
from under_siege.report.split_table import fitting
from under_siege.report.threshold_text import required_as_data, required_as_table

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
