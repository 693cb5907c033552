"""Along an axis of numbers, such as the users: a figure over them, a curve with its intervals for each strategy."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from under_siege.analysis.metric_value import known
from under_siege.analysis.report_data import Comparison
from under_siege.analysis.sweep import number
from under_siege.charts.canvas import Words, kind, layer, quantity
from under_siege.charts.theme import Drawing, Look
from under_siege.checks.verdict import OK
from under_siege.report.labels import cases_of, name_of

_CEILING = "the ceiling"
_MARKS = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]
_TIMES = "datum.value < 1000 ? format(datum.value, '~g') + ' ms' : format(datum.value / 1000, '~g') + ' s'"
_WIDE_RANGE = 16  # times the least, and an axis goes in steps of so many times


@dataclass(frozen=True, slots=True)
class Over:
    """What is drawn over the axis."""

    name: str  # of the picture
    figure: str  # as `known` has it
    title: str  # of its axis
    scaled: Callable[[float], float] = lambda value: value
    in_steps: bool = False  # of ten times each


FIGURES = (
    Over("rate", "rate_per_s", "requests per second, speed-adjusted"),
    Over("p99", "response_p99_s", "response, 99th percentile", lambda value: 1000 * value, in_steps=True),
    Over("ping", "ping_p99_s", "ping, 99th percentile", lambda value: 1000 * value, in_steps=True),
    Over("cpu", "cpu_s_per_transaction", "CPU for each answer, milliseconds", lambda value: 1000 * value),
    Over("memory", "memory_bytes", "memory, megabytes", lambda value: value / 1e6),
)


def curves(comparison: Comparison, places: Sequence[int], along: str, over: Over, look: Look) -> Drawing:
    """Of those of the cases, which differ along that axis; colour, dash and mark each tell the strategies apart."""
    rows = _rows(comparison, places, along, over)
    names = list(dict.fromkeys(row["name"] for row in rows if row["name"] != _CEILING))
    legend = {
        "title": None,
        "orient": "bottom",
        "columns": 1 if look.is_narrow else 3,
        "labelColor": look.ink,
        "labelFontSize": 12,
        "labelLimit": look.width // (1 if look.is_narrow else 3) - 40,
        "symbolSize": 120,
    }
    count = range(len(names))
    colours = [look.lines[number % len(look.lines)] for number in count] + [look.limit]
    dashes = [[1, 0] if number < len(look.lines) else [2, 2] for number in count] + [[6, 3]]
    shapes = [_MARKS[number % len(_MARKS)] for number in count] + ["stroke"]

    domain = [*names, *([_CEILING] if any(row["name"] == _CEILING for row in rows) else [])]

    def of_each(values: list[Any], legend: Words | None = legend) -> Words:
        return kind("name", scale={"domain": domain, "range": values[: len(domain)]}, legend=legend)

    x, colour = _across(rows, along), of_each(colours)
    base = {"x": x, "y": _up(over), "color": colour}
    edges = {"x": x, "y": quantity("low"), "y2": {"field": "high"}, "color": colour}
    dash, shape = of_each(dashes, None), of_each(shapes)
    layers = [
        {"name": "curves", **layer("curves", "line", {**base, "strokeDash": dash}, strokeWidth=2)},
        {"name": "edges", **layer("edges", "rule", edges, strokeWidth=1.5)},
        {"name": "curves", **layer("curves", "point", {**base, "shape": shape}, filled=True, size=70, opacity=1)},
    ]
    chart = {"layer": layers, "width": look.width - 70, "height": 260}
    return Drawing(chart, {"curves": rows, "edges": [row for row in rows if row["low"] is not None]})


def _across(rows: Sequence[dict[str, Any]], along: str) -> Words:
    """Where the numbers are far apart, in steps of so many times."""
    values = sorted({row["along"] for row in rows})
    far = bool(values) and values[0] > 0 and values[-1] >= _WIDE_RANGE * values[0]
    scale = {"type": "log", "nice": False} if far else {"zero": False}
    title = "users at the same time" if along == "users" else along
    return quantity("along", title=title, scale=scale, axis={"values": values, "format": "~g"})


def _up(over: Over) -> Words:
    scale = {"type": "log"} if over.in_steps else {"zero": True}
    axis = {"tickCount": 6, **({"labelExpr": _TIMES} if over.in_steps else {})}
    return quantity("value", title=over.title, scale=scale, axis=axis)


def _rows(comparison: Comparison, places: Sequence[int], along: str, over: Over) -> list[dict[str, Any]]:
    """What can be trusted: where a figure is, and from where to where it may be."""
    rows: list[dict[str, Any]] = []
    cases = cases_of(comparison.cases)
    for place in places:
        case, at = comparison.cases[place], number(comparison.cases[place].case.get(along))
        found = known(comparison, place, over.figure) if case.verdict == OK and at is not None else None
        if found is None or not found.value:
            continue
        low, high = (None, None) if found.interval is None or math.isinf(found.interval[1]) else found.interval
        row = {"along": at, "name": name_of(case.case, cases, without=[along])}
        edges = {name: None if edge is None else over.scaled(edge) for name, edge in (("low", low), ("high", high))}
        rows.append({**row, "value": over.scaled(found.value), **edges})
        if case.ceiling_per_s and over.figure == "rate_per_s":
            rows.append({"along": at, "name": _CEILING, "value": case.ceiling_per_s, "low": None, "high": None})
    return rows
