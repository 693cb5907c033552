"""Chart latency, ping latency and goodput at each arrival rate."""

import math
from collections.abc import Sequence

from under_siege.capacity.estimate import Capacity
from under_siege.show.charts import TIME, Chart, Rows, kind, layer, quantity

_LEAST_S = 5e-4  # shorter times are drawn at this value, because the axis is logarithmic


def capacity_chart(servers: Sequence[tuple[Capacity, str]]) -> Chart:
    """Chart latency, ping latency and goodput, one below the other, with a shared rate axis.

    Args:
        servers: the capacity and the name of each server.
    """
    charts = [_latency(servers, "response", 240), _latency(servers, "ping", 150), _goodput(servers)]
    shown = [chart for chart in charts if chart["data"]["values"]]
    return {"vconcat": shown, "spacing": 18, "resolve": {"scale": {"x": "shared"}}}


def latency_chart(servers: Sequence[tuple[Capacity, str]]) -> Chart:
    """Chart only latency, because a slide has room for only one legible chart."""
    return _latency(servers, "response", 240)


def _latency(servers: Sequence[tuple[Capacity, str]], metric: str, height: int) -> Chart:
    """Chart the 99th percentile of the responses or pings, and the goals."""
    rows = [
        {"name": name, "per_s": step.per_s, "value": max(value, _LEAST_S)}
        for capacity, name in servers
        for step in capacity.steps
        if (value := step.value(f"{metric}_p99_s")) is not None and value < math.inf
    ]
    goals = {each for capacity, _ in servers for each in capacity.goals if not each.request}
    limits_s = {each.limit for each in goals if each.figure.startswith(f"{metric}_")}
    limits = [{"value": limit_s} for limit_s in sorted(limits_s)]
    axis = {"values": [factor * 10.0**power for power in range(-4, 3) for factor in (1, 3)], "labelExpr": TIME}
    y = quantity("value", title=f"{metric}s: p99", scale={"type": "log"}, axis=axis)
    return _lines(rows, servers, y, height, {"data": {"values": limits}, **layer("rule", "limit", {"y": y})})


def _goodput(servers: Sequence[tuple[Capacity, str]]) -> Chart:
    rows = [
        {"name": name, "per_s": step.per_s, "value": step.good_per_s}
        for capacity, name in servers
        for step in capacity.steps
    ]
    y = quantity("value", title="responses in time, per second", scale={"type": "symlog", "constant": 1})
    return _lines(rows, servers, y, 170)


def _lines(rows: Rows, servers: Sequence[tuple[Capacity, str]], y: Chart, height: int, *below: Chart) -> Chart:
    """Return a chart with a line for each server along the rates. Servers differ in both colour and shape."""
    scale = {"type": "log", "nice": False, "padding": 12}
    axis = {"format": "~g", "tickCount": 8, "grid": False}
    x = quantity("per_s", title="requests offered per second", scale=scale, axis=axis)
    colour, shape = (kind("name", scale={"domain": [name for _, name in servers]}) for _ in ("color", "shape"))
    return {
        "data": {"values": rows},
        "width": "container",
        "height": height,
        "layer": [
            *below,
            layer("line", "line", {"x": x, "y": y, "color": colour}, strokeWidth=2),
            layer("point", "point", {"x": x, "y": y, "color": colour, "shape": shape}, filled=True, size=55),
        ],
    }
