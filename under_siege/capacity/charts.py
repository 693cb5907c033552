"""Draw charts that show latency, ping latency and goodput at each arrival rate."""

import math
from collections.abc import Sequence

from under_siege.capacity.estimate import Capacity
from under_siege.show.canvas import MARKS, Drawing, Rows, Theme, VegaLite, kind, layer, legend, quantity

_HEIGHTS = {"responses": 240, "pings": 170, "goodput": 170}
_METRICS = {"responses": "response", "pings": "ping"}
_LEAST_S = 5e-4  # shorter times are drawn at this value, because the axis is logarithmic
_TIME = "datum.value < 1 ? format(datum.value * 1000, '~g') + ' ms' : datum.value + ' s'"


def capacity_chart(servers: Sequence[tuple[Capacity, str, str]], theme: Theme) -> Drawing:
    """Draw charts of latency, ping latency and goodput, one below the other, with a shared rate axis.

    A slide has room for only one legible chart, so it shows only latency.

    Args:
        servers: the capacity, the plain name and the brief name of each server.
    """
    capacities = [capacity for capacity, _, _ in servers]
    names = [plain if theme.is_slide else brief for _, plain, brief in servers]
    rows: dict[str, Rows] = {name: [] for name in _HEIGHTS}
    for name, capacity in zip(names, capacities, strict=True):
        for step in capacity.steps:
            for data, metric in _METRICS.items():
                if (value := step.percentile_s(metric, 99)) is not None and value < math.inf:
                    rows[data].append({"name": name, "per_s": step.per_s, "y": max(value, _LEAST_S)})
            rows["goodput"].append({"name": name, "per_s": step.per_s, "y": step.good_per_s})
    goals = {goal for capacity in capacities for goal in capacity.goals}
    for data, metric in _METRICS.items():
        limits = {goal.limit for goal in goals if goal.figure.startswith(f"{metric}_")}
        rows[f"{data}_goals"] = [{"y": limit} for limit in sorted(limits)]
    # Servers differ in both colour and mark, because there are few colours.
    colour, mark = (
        kind(
            "name",
            scale={"domain": names, "range": [choices[index % len(choices)] for index in range(len(names))]},
            legend=legend(theme, "top", symbolOpacity=1),
        )
        for choices in (theme.lines, MARKS)
    )
    shown = ["responses"] if theme.height is not None else [name for name in _HEIGHTS if rows[name]]
    height = theme.height - 60 - 20 * math.ceil(len(names) / 3) if theme.height is not None else None
    charts = [_chart(name, height or _HEIGHTS[name], colour, mark, theme, is_last=name == shown[-1]) for name in shown]
    if len(charts) == 1:
        return Drawing(charts[0], rows)
    return Drawing({"vconcat": charts, "spacing": 18, "resolve": {"scale": {"x": "shared"}}}, rows)


def _chart(data: str, height: float, colour: VegaLite, mark: VegaLite, theme: Theme, *, is_last: bool) -> VegaLite:
    per_s = ("requests per second" if theme.is_slide else "requests offered per second") if is_last else None
    axis = {"title": per_s, "format": "~g", "tickCount": 8, "grid": False}
    x = quantity("per_s", scale={"type": "log", "nice": False, "padding": 12}, axis=axis)
    y = quantity("y", title="responses in time, per second", scale={"type": "symlog", "constant": 1})
    goals = []
    if data in _METRICS:
        scale, axis = {"type": "log", "nice": True}, {"tickCount": 5, "labelExpr": _TIME}
        y = quantity("y", title=f"{data}: p99", scale=scale, axis=axis)
        goals = [layer(f"{data}_goals", "rule", {"y": quantity("y")}, color=theme.limit, strokeDash=[5, 3])]
    base = {"x": x, "y": y, "color": colour}
    points = layer(data, "point", {**base, "shape": mark}, filled=True, size=55)
    return {
        "layer": [*goals, layer(data, "line", base, strokeWidth=2), points],
        "width": theme.width - 80,
        "height": height,
    }
