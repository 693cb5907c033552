"""Draw how metrics depend on axes: as curves along a numeric axis, or as a heat map of several loads or axes."""

import math
from collections.abc import Sequence
from typing import Any

from under_siege import formatting
from under_siege.judge.case_names import across, at, cases_of, in_plain_words, label, name_of, short
from under_siege.judge.metrics import Metric
from under_siege.judge.ranking import Comparison
from under_siege.judge.summary import Summary
from under_siege.judge.sweep import number
from under_siege.judge.verdict_rules import FAILED, OK
from under_siege.record.case import Value, axis
from under_siege.show.canvas import MARKS, Drawing, Sheet, Theme, VegaLite, kind, layer, legend, quantity

_CEILING = "the ceiling"
_TIMES = "datum.value < 1000 ? format(datum.value, '~g') + ' ms' : format(datum.value / 1000, '~g') + ' s'"
_WIDE_RANGE = 16  # an axis is logarithmic if its largest value is at least this multiple of its smallest


def curves(comparison: Comparison, places: Sequence[int], along: str, over: Metric, theme: Theme) -> Drawing:
    """Draw the metric `over` of the cases at `places` along a numeric axis, as one curve for each strategy."""
    rows = _rows(comparison, places, along, over)
    names = list(dict.fromkeys(row["name"] for row in rows if row["name"] != _CEILING))
    key = legend(theme, "bottom", labelLimit=theme.width // (1 if theme.is_narrow else 3) - 40, symbolSize=120)
    count = range(len(names))
    colours = [theme.lines[number % len(theme.lines)] for number in count] + [theme.limit]
    dashes = [[1, 0] if number < len(theme.lines) else [2, 2] for number in count] + [[6, 3]]
    shapes = [MARKS[number % len(MARKS)] for number in count] + ["stroke"]

    domain = [*names, *([_CEILING] if any(row["name"] == _CEILING for row in rows) else [])]

    def of_each(values: list[Any], key: VegaLite | None = key) -> VegaLite:
        return kind("name", scale={"domain": domain, "range": values[: len(domain)]}, legend=key)

    x, colour = _across(rows, along), of_each(colours)
    base = {"x": x, "y": _up(over), "color": colour}
    edges = {"x": x, "y": quantity("low"), "y2": {"field": "high"}, "color": colour}
    dash, shape = of_each(dashes, None), of_each(shapes)
    layers = [
        {"name": "curves", **layer("curves", "line", {**base, "strokeDash": dash}, strokeWidth=2)},
        {"name": "edges", **layer("edges", "rule", edges, strokeWidth=1.5)},
        {"name": "curves", **layer("curves", "point", {**base, "shape": shape}, filled=True, size=70, opacity=1)},
    ]
    chart = {"layer": layers, "width": theme.width - 70, "height": 260}
    return Drawing(chart, {"curves": rows, "edges": [row for row in rows if row["low"] is not None]})


def _across(rows: Sequence[dict[str, Any]], along: str) -> VegaLite:
    values = sorted({row["along"] for row in rows})
    far = bool(values) and values[0] > 0 and values[-1] >= _WIDE_RANGE * values[0]
    scale = {"type": "log", "nice": False} if far else {"zero": False}
    title = "concurrent users" if along == "users" else along
    return quantity("along", title=title, scale=scale, axis={"values": values, "format": "~g"})


def _up(over: Metric) -> VegaLite:
    scale = {"type": "log"} if over.is_logarithmic else {"zero": True}
    axis = {"tickCount": 6, **({"labelExpr": _TIMES} if over.is_logarithmic else {})}
    return quantity("value", title=over.chart_title, scale=scale, axis=axis)


def _rows(comparison: Comparison, places: Sequence[int], along: str, over: Metric) -> list[dict[str, Any]]:
    """Return a row with the metric and its interval for each `ok` case; for the rate, add rows for the ceilings."""
    rows: list[dict[str, Any]] = []
    cases, factor = cases_of(comparison.cases), over.unit.chart_factor
    for place in places:
        case, at = comparison.cases[place], number(comparison.cases[place].case.get(along))
        found = case.metrics.get(over.key) if case.verdict == OK and at is not None else None
        if found is None or not found.value:
            continue
        low, high = (None, None) if found.interval is None or math.isinf(found.interval[1]) else found.interval
        row = {"along": at, "name": name_of(case.case, cases, without=[along])}
        edges = {name: None if edge is None else edge * factor for name, edge in (("low", low), ("high", high))}
        rows.append({**row, "value": found.value * factor, **edges})
        if case.ceiling_per_s and over.key == "rate_per_s":
            rows.append({"along": at, "name": _CEILING, "value": case.ceiling_per_s, "low": None, "high": None})
    return rows


_CELL, _HEAD = 44, 38  # height of a row and of the headings, in pixels
_LETTER = 7  # approximate width of a letter in pixels
FEW_LETTERS = 4
Setting = tuple[Value | None, ...]  # the values that define a column, one for each axis


def heat_map(cases: Sequence[Summary], theme: Theme) -> Drawing:
    """Draw a cell for each case with its rate and its share of the ceiling; larger shares have stronger colours."""
    axes = across(cases_of(cases))
    settings = list(dict.fromkeys(setting for case in cases if None not in (setting := at(case.case, axes))))
    called = {label(case, cases, without=axes): _plainly(case, cases, axes) for case in cases}
    names = list(called)
    shown = [_narrow(name) if theme.is_narrow else called[name] for name in names]
    left = 240 if not theme.is_narrow else 30 if max(map(len, shown)) <= FEW_LETTERS else 90
    width = theme.width - left - 10
    wide = width / len(settings)
    sheet = Sheet(width, _HEAD + _CELL * len(names), {"domain": [0, width], "nice": False}, None)
    cells, rates, shares = [], [], []
    placed = [(case, place) for case in cases for place in _columns(at(case.case, axes), settings)]
    for case, place in placed:
        x, y = wide * place, _HEAD + _CELL * names.index(label(case, cases, without=axes))
        share = min(1.0, case.of_ceiling.mean if case.of_ceiling else 0.0) if case.verdict == OK else 0.0
        cells.append({"x": x + 1, "x2": x + wide - 1, "y": y + 1, "y2": y + _CELL - 1, "share": 0.05 + 0.5 * share})
        best = " ★" if case.rank == 1 else ""
        rates.append({"x": x + wide / 2, "y": y + 15, "text": _rate(case) + best})
        shares.append({"x": x + wide / 2, "y": y + 31, "text": _share(case)})
    heads = [
        {"x": wide * (place + 0.5), "y": 10 + 16 * line, "text": text}
        for place, setting in enumerate(settings)
        for line, text in enumerate(_heading(axes, setting, wide))
    ]
    labels = [{"y": _HEAD + _CELL * (row + 0.5), "text": name} for row, name in enumerate(shown)]
    size = 10 if theme.is_narrow else 12
    return sheet.drawn(
        sheet.bars("cells", cells, {"opacity": quantity("share", scale=None)}, color=theme.work),
        sheet.text("rates", rates, fontSize=size + 1, fontWeight="bold", color=theme.ink),
        sheet.text("shares", shares, fontSize=size, color=theme.ink),
        sheet.text("heads", heads, fontSize=size, fontWeight="bold", color=theme.ink),
        sheet.text("names", labels, -8, align="right", fontSize=12, color=theme.ink),
    )


def _columns(values: Setting, settings: Sequence[Setting]) -> list[int]:
    """Return the indices of a case's columns; a case without a value on an axis appears under all values."""
    return [
        place
        for place, setting in enumerate(settings)
        if all(value in (None, wanted) for value, wanted in zip(values, setting, strict=True))
    ]


def _heading(axes: Sequence[str], setting: Setting, wide: float) -> list[str]:
    """Return the lines of a column heading, one for each value; a value that is too long loses its unit or its end."""
    most, lines = int(wide / _LETTER), []
    for name, value in zip(axes, setting, strict=True):
        brief = str(value).split(":")[-1]
        words = axis(name).label(value if isinstance(value, int) else brief)
        lines.append(words if len(words) <= most else brief if len(brief) <= most else f"{brief[: most - 1]}…")
    return lines


def _plainly(case: Summary, cases: Sequence[Summary], axes: Sequence[str]) -> str:
    name, plain = label(case, cases, without=axes), in_plain_words(case.server, case.title)
    return name if plain == case.server else f"{plain} ({short(case.server)}){name.removeprefix(case.server)}"


def _narrow(name: str) -> str:
    """Return a short name such as `4`, or `4 3.14.7` if it includes a Python version."""
    server, *rest = name.split(" ")
    return " ".join([short(server), *(word for word in rest if any(map(str.isdigit, word)))])


def _rate(case: Summary) -> str:
    if case.verdict == FAILED or case.rate_per_s is None:
        return "failed"
    return f"{formatting.rate(case.usual_rate_per_s)}/s"


def _share(case: Summary) -> str:
    if case.verdict != OK:
        return case.verdict if case.verdict != FAILED else ""
    return formatting.share(case.of_ceiling.mean) if case.of_ceiling is not None else ""
