"""Draw charts that show latency, ping latency and goodput at each arrival rate."""

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial

from under_siege.capacity.capacity_estimate import Capacity, capacities_of
from under_siege.capacity.capacity_table import (
    COLUMNS,
    cells,
    conclusion,
    footnote,
    headline,
    in_one_sentence,
    named,
)
from under_siege.charts.canvas import MARKS, Drawing, Rows, Theme, VegaLite, either, kind, layer, legend, quantity
from under_siege.charts.html_page import Picture, Section, page
from under_siege.model.record import Result
from under_siege.report.case_names import in_words

MOST_PICTURES = 6  # maximum number of pictures, one for each task
_HEIGHT, _LOWER = 240, 170
_LEAST_S = 5e-4  # shorter times are drawn at this value, because the axis is logarithmic
_METRICS = {"responses": "response", "pings": "ping"}


def capacity_chart(capacities: Sequence[Capacity], theme: Theme) -> Drawing:
    """Draw charts of latency, ping latency and goodput, one below the other, with a shared rate axis.

    A slide has room for only one legible chart, so it shows only latency.
    """
    names = [each.plain if theme.is_slide else each.brief for each in named(capacities)]
    rows = _rows(names, capacities)
    # Servers differ in both colour and mark, because there are few colours.
    colour, mark = (
        kind(
            "name",
            scale={"domain": names, "range": [choices[index % len(choices)] for index in range(len(names))]},
            legend=legend(theme, "top", symbolOpacity=1),
        )
        for choices in (theme.lines, MARKS)
    )
    if theme.height is not None:
        height = theme.height - 60 - 20 * math.ceil(len(names) / 3)
        return Drawing(_latency("responses", height, colour, mark, theme), rows)
    charts = [_latency("responses", _HEIGHT, colour, mark, theme)]
    if rows["pings"]:
        charts.append(_latency("pings", _LOWER, colour, mark, theme))
    charts.append(_goodput(colour, mark, theme))
    return Drawing({"vconcat": charts, "spacing": 18, "resolve": {"scale": {"x": "shared"}}}, rows)


def _rows(names: Sequence[str], capacities: Sequence[Capacity]) -> dict[str, Rows]:
    rows: dict[str, Rows] = {"responses": [], "pings": [], "good": []}
    for name, capacity in zip(names, capacities, strict=True):
        for step in capacity.steps:
            point = {"name": name, "per_s": step.per_s, "broke": step.step.broke}
            for data, percent in itertools.product(_METRICS, (50, 99)):
                value = step.percentile_s(_METRICS[data], percent)
                if value is not None and value != math.inf:
                    rows[data].append({**point, "percent": percent, "s": max(value, _LEAST_S)})
            rows["good"].append({**point, "good": step.good_per_s(capacity.in_time_s)})
    goals = {goal for capacity in capacities for goal in capacity.goals}
    for data, metric in _METRICS.items():
        limits = {goal.limit for goal in goals if goal.figure.startswith(f"{metric}_")}
        rows[f"{data}_goals"] = [{"s": limit} for limit in sorted(limits)]
    return rows


def _latency(data: str, height: float, colour: VegaLite, mark: VegaLite, theme: Theme) -> VegaLite:
    label = "datum.value < 1 ? format(datum.value * 1000, '~g') + ' ms' : datum.value + ' s'"
    axis = {"tickCount": 5, "labelExpr": label}
    y = quantity("s", title=f"{data}: p99 (p50 is fainter)", scale={"type": "log", "nice": True}, axis=axis)
    base = {"x": _x("requests per second" if theme.is_slide else None), "y": y, "color": colour}
    p50, p99 = ({"transform": [{"filter": f"datum.percent == {percent}"}]} for percent in (50, 99))
    layers = [
        layer(f"{data}_goals", "rule", {"y": quantity("s")}, color=theme.limit, strokeDash=[5, 3]),
        {**layer(data, "line", {**base, "detail": kind("name")}, strokeWidth=1.5, opacity=0.4), **p50},
        {**layer(data, "line", base, strokeWidth=2), **p99},
        {**_points(data, base, mark), **p99},
    ]
    return {"layer": layers, "width": theme.width - 80, "height": height}


def _goodput(colour: VegaLite, mark: VegaLite, theme: Theme) -> VegaLite:
    y = quantity("good", title="responses in time, per second", scale={"type": "symlog", "constant": 1})
    base = {"x": _x("requests offered per second"), "y": y, "color": colour}
    layers = [layer("good", "line", base, strokeWidth=2), _points("good", base, mark)]
    return {"layer": layers, "width": theme.width - 80, "height": _LOWER}


def _x(title: str | None) -> VegaLite:
    axis = {"title": title, "format": "~g", "tickCount": 8, "grid": False}
    return quantity("per_s", scale={"type": "log", "nice": False, "padding": 12}, axis=axis)


def _points(data: str, base: VegaLite, mark: VegaLite) -> VegaLite:
    opacity = either("datum.broke", 0.35, 1.0)
    return layer(data, "point", {**base, "shape": mark, "opacity": opacity}, filled=True, size=55)


def capacity_as_html(result: Result) -> str:
    capacities = capacities_of(result)
    return page(
        "capacity.html",
        result,
        heading="Capacity",
        answer=list(conclusion(capacities, result.left_out)),
        headings=COLUMNS,
        rows=[(each.plain, each.name, cells(each.capacity), each.capacity.verdict) for each in named(capacities)],
        notes=footnote(result, capacities).splitlines(),
        sections=[Section("Latency and goodput by rate", list(capacity_pictures(capacities)))],
    )


def capacity_pictures(capacities: Sequence[Capacity]) -> Iterator[Picture]:
    groups: dict[object, list[Capacity]] = {}
    for capacity in capacities:
        if capacity.steps:
            groups.setdefault(capacity.case.job, []).append(capacity)
    for group in list(groups.values())[:MOST_PICTURES]:
        job = in_words(group[0].case, [name for name, _ in group[0].case.job])
        yield Picture(
            "capacity",
            job if len(groups) > 1 else "",
            "Each point is one step with Poisson arrivals at one rate. The knee is where a line bends upwards; the "
            "dashed lines are the goals. Faint points mark steps that ended early, because too many requests had "
            "missed a goal. The bottom chart shows the goodput: how many responses per second arrived in time.",
            partial(capacity_chart, group),
            "Latency by arrival rate. " + " ".join(map(in_one_sentence, group)),
            headline=headline(group),
            conditions=job,
        )
