"""Draw latency, ping latency and goodput over the arrival rate."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from under_siege.capacity.capacity_export import (
    COLUMNS,
    brief_names_of,
    cells,
    conclusion,
    footnote,
    headline,
    in_one_sentence,
    names_of,
    plain_names_of,
)
from under_siege.capacity.capacity_result import Capacity, capacities_of
from under_siege.charts.canvas import MARKS, Drawing, Look, Words, either, kind, layer, legend, quantity
from under_siege.charts.html import Picture, Section, page
from under_siege.model.record import Result
from under_siege.report.labels import in_words

_HEIGHT, _LOWER = 240, 170
_LEAST_S = 5e-4  # shorter times don't matter


def capacity_chart(capacities: Sequence[Capacity], look: Look) -> Drawing:
    """Draw three charts, one below the other: latency, ping latency and goodput, over the same rates.

    A slide has only the first chart.
    """
    names = brief_names_of(capacities) if look.height is None else plain_names_of(capacities)
    rows = {
        "answers": list(_times(capacities, names, "response")),
        "pings": list(_times(capacities, names, "ping")),
        "good": list(_good(capacities, names)),
        "answer_goals": _goals(capacities, "response"),
        "ping_goals": _goals(capacities, "ping"),
    }
    colour, mark = _colour_and_mark(names, look)
    if look.height is not None:  # a slide has room for one legible chart
        height = look.height - 60 - 20 * math.ceil(len(names) / 3)
        return Drawing(_sheet("answers", "answer_goals", "answers", height, (colour, mark), look), rows)
    sheets = [_sheet("answers", "answer_goals", "answers", _HEIGHT, (colour, mark), look)]
    if rows["pings"]:
        sheets.append(_sheet("pings", "ping_goals", "pings", _LOWER, (colour, mark), look))
    sheets.append(_goodput((colour, mark), look))
    return Drawing({"vconcat": sheets, "spacing": 18, "resolve": {"scale": {"x": "shared"}}}, rows)


def _colour_and_mark(names: Sequence[str], look: Look) -> tuple[Words, Words]:
    """Return the encodings of colours and marks; both distinguish servers, because there are few colours."""
    key = legend(look, "top", symbolOpacity=1)
    colours = [look.lines[number % len(look.lines)] for number in range(len(names))]
    marks = [MARKS[number % len(MARKS)] for number in range(len(names))]
    return (
        kind("name", scale={"domain": list(names), "range": colours}, legend=key),
        kind("name", scale={"domain": list(names), "range": marks}, legend=key),
    )


def _paleness() -> Words:
    """Return the opacity of a point: pale if its step ended early."""
    return either("datum.broke", 0.35, 1.0)


def _x(title: str | None) -> Words:
    axis = {"title": title, "format": "~g", "tickCount": 8, "grid": False}
    return quantity("per_s", scale={"type": "log", "nice": False, "padding": 12}, axis=axis)


def _sheet(data: str, goals: str, name: str, height: float, colour_and_mark: tuple[Words, Words], look: Look) -> Words:
    colour, mark = colour_and_mark
    label = "datum.value < 1 ? format(datum.value * 1000, '~g') + ' ms' : datum.value + ' s'"
    y = quantity(
        "s",
        title=f"{name}: p99, and p50 faint",
        scale={"type": "log", "nice": True},
        axis={"tickCount": 5, "labelExpr": label},
    )
    base = {"x": _x("requests per second" if look.is_slide else None), "y": y, "color": colour}
    p50, p99 = ({"transform": [{"filter": f"datum.percent == {percent}"}]} for percent in (50, 99))
    layers = [
        layer(goals, "rule", {"y": quantity("s")}, color=look.limit, strokeDash=[5, 3]),
        {**layer(data, "line", {**base, "detail": kind("name")}, strokeWidth=1.5, opacity=0.4), **p50},
        {**layer(data, "line", base, strokeWidth=2), **p99},
        {**_points(data, base, mark), **p99},
    ]
    return {"layer": layers, "width": look.width - 80, "height": height}


def _goodput(colour_and_mark: tuple[Words, Words], look: Look) -> Words:
    colour, mark = colour_and_mark
    y = quantity("good", title="answers in time, per second", scale={"type": "symlog", "constant": 1})
    base = {"x": _x("requests offered per second"), "y": y, "color": colour}
    layers = [layer("good", "line", base, strokeWidth=2), _points("good", base, mark)]
    return {"layer": layers, "width": look.width - 80, "height": _LOWER}


def _points(data: str, base: Words, mark: Words) -> Words:
    return layer(data, "point", {**base, "shape": mark, "opacity": _paleness()}, filled=True, size=55)


def _times(capacities: Sequence[Capacity], names: Sequence[str], kind: str) -> Iterator[dict[str, Any]]:
    for name, capacity in zip(names, capacities, strict=True):
        for step in capacity.steps:
            for percent in (50, 99):
                value = step.percentile_s(kind, percent)
                if value is not None and value != math.inf:
                    yield {
                        "name": name,
                        "per_s": step.per_s,
                        "percent": percent,
                        "s": max(value, _LEAST_S),
                        "broke": step.step.broke,
                    }


def _good(capacities: Sequence[Capacity], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    for name, capacity in zip(names, capacities, strict=True):
        for step in capacity.steps:
            yield {
                "name": name,
                "per_s": step.per_s,
                "good": step.good_per_s(capacity.in_time_s),
                "broke": step.step.broke,
            }


def _goals(capacities: Sequence[Capacity], kind: str) -> list[dict[str, Any]]:
    limits = {goal.limit for capacity in capacities for goal in capacity.goals if goal.figure.startswith(f"{kind}_")}
    return [{"s": limit} for limit in sorted(limits)]


MOST_PICTURES = 6  # there is one for each task


def capacity_as_html(result: Result) -> str:
    capacities = capacities_of(result)
    return page(
        "capacity.html",
        result,
        heading="Capacity",
        answer=list(conclusion(capacities, result.left_out)),
        headings=COLUMNS,
        rows=[
            (plain, name, cells(capacity), capacity.verdict)
            for plain, name, capacity in zip(plain_names_of(capacities), names_of(capacities), capacities, strict=True)
        ],
        notes=footnote(result, capacities).splitlines(),
        sections=[Section("Latency and goodput by rate", list(capacity_pictures(capacities)))],
    )


def capacity_pictures(capacities: Sequence[Capacity]) -> Iterator[Picture]:
    groups: dict[object, list[Capacity]] = {}
    for capacity in capacities:
        if capacity.steps:
            groups.setdefault(capacity.case.job, []).append(capacity)
    for group in list(groups.values())[:MOST_PICTURES]:
        case = group[0].case
        yield Picture(
            "capacity",
            in_words(case, [name for name, _ in case.job]) if len(groups) > 1 else "",
            "Each point is one step: Poisson arrivals at that rate. The knee is where a line bends upwards; the dashed "
            "lines are the goals. Pale points belong to steps that ended early, because too many requests had missed "
            "a goal. The lowest chart shows the goodput, the answers per second that arrived in time, also beyond the "
            "knee.",
            partial(capacity_chart, group),
            "Latency by arrival rate. " + " ".join(map(in_one_sentence, group)),
            headline=headline(group),
            conditions=in_words(case, [name for name, _ in case.job]),
        )
