"""Chart the cases of a comparison: throughput, pings, CPU time, responses and pings over time, and trade-offs."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np

from under_siege import formatting
from under_siege.judge.estimates import Estimate
from under_siege.judge.estimators import Waits, together
from under_siege.judge.ranking import spent_beside
from under_siege.judge.round_statistics import Round
from under_siege.judge.summary import EventTimes, Latency, Summary
from under_siege.judge.verdict_rules import OK
from under_siege.run.charted_cases import ChartedCases
from under_siege.show.case_names import CaseNames, short
from under_siege.show.charts import TIME, Chart, Rows, kind, layer, quantity
from under_siege.show.columns import with_first_text
from under_siege.show.view import finite

MOST_STEPS = 600  # maximum number of points of a curve
GAPS, FIRST = "gaps between events", "first event"
_ROOM = 1.08  # length of an axis as a multiple of the largest plausible value; longer bars are cut
_LEAST_S = 0.0005  # shorter times are drawn at this value, because the axis is logarithmic
_DROP = 0.7  # height of the longest ping, as a multiple of the height of the highest curve of responses
_LETTERS = 28  # of a line beside a row
_CLOSE = (0.07, 0.06)  # points within these shares of the width and height share a label


def throughput(charted: ChartedCases) -> Chart:
    """Chart the speed-adjusted rate of each case as a bar with an interval, and its ceiling as a band with a line."""
    cases, ceilings = charted.cases, charted.ceilings
    most = _most_per_s([*cases, *(each for each in ceilings if each is not None)])
    names = names_of(cases, [_rate_with_margin(case, most) for case in cases], "rate_per_s")
    rows = [
        {"row": name, **_rates(case), "is_strong": is_strong and case.verdict == OK}
        | {f"ceiling_{name}": value for name, value in (_rates(ceiling) if ceiling else {}).items()}
        for name, case, ceiling, is_strong in zip(names, cases, ceilings, _strong(cases, "rate_per_s"), strict=True)
    ]
    known = any(each is not None and each.rate_per_s for each in ceilings)
    title = f"{cases[0].counted} per second{' · dark line: the ceiling' if known else ''}"
    x = quantity("value", title=title, scale=_up_to(most), axis={"orient": "top"})
    band = {"x": {**x, "field": "ceiling_low"}, "x2": {"field": "ceiling_high"}}
    return in_rows(
        names,
        rows,
        layer("bar", "band", band, height={"band": 1}),
        *_bar_and_interval(x),
        layer("tick", "ink", {"x": {**x, "field": "ceiling_value"}}, height={"band": 1}, thickness=2),
    )


def pings(charted: ChartedCases, marks_each: int) -> Chart:
    """Chart the distribution of the ping latencies of each case.

    Args:
        marks_each: marks per case; each represents an equal share of the pings.
    """
    names = names_of(
        charted.cases,
        [_p50_and_p99(each.ping_s) if each.ping_s else "no pings" for each in charted.cases],
        "ping_p99_s",
    )
    waited_s = [np.maximum(_LEAST_S, np.concatenate([run.pings.waited_s for run in case])) for case in charted.rounds]
    task_s = charted.alone_s
    found = [(name, values) for name, values in zip(names, waited_s, strict=True) if len(values)]
    shares = (np.arange(marks_each) + 0.5) * 100 / marks_each
    marks = [
        {"row": name, "ping_s": float(ping_s)} for name, values in found for ping_s in np.percentile(values, shares)
    ]
    medians = [{"row": name, "ping_s": float(np.percentile(values, 50))} for name, values in found]
    longest_s = float(max([0.1, task_s or 0.0, *(values.max() for _, values in found)]))
    title = f"ping latency, logarithmic{f' · dashed: one task, {formatting.seconds(task_s)}' if task_s else ''}"
    x = quantity("ping_s", title=title, **_logarithmic(longest_s))
    return in_rows(
        names,
        marks,
        {"data": {"values": [{"ping_s": task_s}] if task_s else []}, **layer("rule", "limit", {"x": x})},
        layer("tick", "ping", {"x": x}, opacity=0.4, thickness=2, height={"band": 0.45}),
        {"data": {"values": medians}, **layer("tick", "ink", {"x": x}, thickness=3, height={"band": 0.65})},
    )


def cpu(charted: ChartedCases, task: Estimate | None) -> Chart:
    """Chart the CPU time of each case as a bar with an interval, without the CPU time of the task if it is known.

    If it is known, bars not significantly above 0 are faint; otherwise, if a case has a star, the others are.
    """
    known = [place for place in charted.places if charted.comparison.cases[place].cpu_s_per_transaction is not None]
    cases = [charted.comparison.cases[place] for place in known]
    spent = spent_beside(charted.comparison, known, task)
    in_ms = [
        [None if each is None else 1000 * max(0.0, each) for each in (one.value, one.low, one.high)] for one in spent
    ]
    names = names_of(cases, [_cpu_text(*values) for values in in_ms], "cpu_s_per_transaction")
    strong = [low != 0 for _, low, _ in in_ms] if task else _strong(cases, "cpu_s_per_transaction")
    rows = [
        {"row": name, "value": value, "low": low, "high": high, "is_strong": is_strong}
        for name, (value, low, high), is_strong in zip(names, in_ms, strong, strict=True)
    ]
    title = f"CPU time per {cases[0].counted.removesuffix('s')}{' on top of the task' if task else ''}, in ms"
    return in_rows(names, rows, *_bar_and_interval(quantity("value", title=title, axis={"orient": "top"})))


def moments(charted: ChartedCases, columns: int = 1) -> Chart:
    """Chart responses and pings over time in the first round of each case, all with the same scales.

    A curve with too many steps is thinned.
    """
    first, most_steps = [case[0] for case in charted.rounds], int(MOST_STEPS * charted.detail)
    names = names_of(charted.cases, list(map(_rate_and_longest, first)), "rate_per_s", letters=_LETTERS * 2)
    end_s = max(run.record.load_s or run.record.time_s for run in first)
    most = max([1, *(_by_then(run, end_s)[-1][1] for run in first)])
    longest_s = max([0.001, *(value for run in first for value in run.pings.waited_s.tolist())])
    rows = [row for name, run in zip(names, first, strict=True) for row in _course(name, run, end_s, most_steps)]
    # Responses climb from a common zero line, and pings hang below it.
    up = {"domain": [-_DROP * most, most], "nice": False}
    down = {"domain": [longest_s, -longest_s / _DROP], "nice": False}
    counts = {"values": [0, formatting.ticks(most, 2)[-1]], "format": ",d", "labelColor": "var(--line-0)"}
    waits = {
        "values": [formatting.ticks(longest_s, 2)[-1]],
        "labelExpr": TIME,
        "orient": "right",
        "labelColor": "var(--line-1)",
    }
    x = quantity("at_s", title="seconds since the siege began", scale={"domain": [0, end_s], "nice": False})
    curve = {"x": x, "y": quantity("responses", title=None, scale=up, axis=counts)}
    bars = {"x": x, "y": quantity("ping_s", title=None, scale=down, axis=waits), "y2": {"datum": 0}}
    layers = [
        {"transform": [{"filter": "isValid(datum.responses)"}], **layer("line", "curve", curve)},
        {
            "transform": [{"filter": "isValid(datum.ping_s)"}],
            **layer("rule", "ping", bars, strokeWidth=2, strokeCap="square"),
        },
    ]
    return {
        "data": {"values": rows},
        "facet": kind("row", sort=names),
        "columns": columns,
        "spec": {"width": "container", "height": 64, "layer": layers, "resolve": {"scale": {"y": "independent"}}},
        "resolve": {"scale": {"y": "independent"}},
    }


def _course(name: str, run: Round, end_s: float, most_steps: int) -> Rows:
    """Return the points of the curve, with at most `most_steps` steps, and the pings."""
    came = _by_then(run, end_s)
    steps = [*came[:-1][:: 1 + len(came) // most_steps], came[-1]]
    due = zip(run.ping_rows.due_s.tolist(), run.ping_rows.waited_s.tolist(), strict=True)
    return [
        *({"row": name, "at_s": at_s, "responses": count} for at_s, count in steps),
        *({"row": name, "at_s": at_s, "ping_s": ping_s} for at_s, ping_s in due if at_s <= end_s),
    ]


def memory(charted: ChartedCases) -> Chart:
    """Chart throughput against memory."""
    points: Rows = [{"case": case, "x": case.memory_bytes / 1e6} for case in charted.cases if case.memory_bytes]
    scale = {"domain": [0, 1.15 * max((point["x"] for point in points), default=1.0)], "nice": False}
    x = quantity("x", title="← memory in MB: less is better", scale=scale)
    return _scatter(points, x, None, "memory_bytes")


def tradeoff(charted: ChartedCases) -> Chart:
    """Chart throughput against the 99th percentile of ping latency."""
    points: Rows = [
        {"case": case, "x": ping.least_p99, "x_low": ping.p99_low, "x_high": finite(ping.p99_high)}
        for case in charted.cases
        if (ping := case.ping_s) is not None
    ]
    edges = [edge for point in points for edge in (point["x"], point["x_low"], point["x_high"]) if edge]
    scale = {"type": "log", "domain": [min(edges, default=0.01) * 0.7, max(edges, default=1.0) * 2], "nice": False}
    axis = {"values": [10.0**power for power in range(-4, 4)], "labelExpr": TIME}
    x = quantity("x", title="← ping p99, logarithmic: less is better", scale=scale, axis=axis)
    ceilings = {ceiling.case: ceiling for ceiling in charted.ceilings if ceiling is not None}
    return _scatter(points, x, next(iter(ceilings.values())) if len(ceilings) == 1 else None, "ping_p99_s")


def _scatter(points: Rows, x: Chart, ceiling: Summary | None, best: str) -> Chart:
    """Chart throughput against a cost; cases that are best in both get a star."""
    cases = [point.pop("case") for point in points]
    names, ranked = CaseNames(cases), any(case.rank == 1 for case in cases)
    most = _most_per_s([*cases, *([ceiling] if ceiling else [])])
    for point, case in zip(points, cases, strict=True):
        star = "★ " if case.rank == 1 and best in case.best else ""
        point |= {"name": f"{star}{_name(case, names)}", "number": short(case.server), **_rates(case)}
        point |= {"y": min(most, case.rate), "is_strong": case.rank == 1 or not ranked}
    y = quantity(
        "y", title=f"{cases[0].counted} per second →{' · dashed: ceiling' if ceiling else ''}", scale=_up_to(most)
    )
    each = {
        channel: kind("name", scale={"domain": [point["name"] for point in points]}) for channel in ("color", "shape")
    }
    limits = [_rates(ceiling)] if ceiling else []
    numbers = {"x": x, "y": y, "text": kind("text")}
    return {
        "data": {"values": points},
        "width": "container",
        "height": 360,
        "layer": [
            {
                "data": {"values": limits},
                **layer("rect", "band", {"y": {**y, "field": "low"}, "y2": {"field": "high"}}),
            },
            {"data": {"values": limits}, **layer("rule", "limit", {"y": {**y, "field": "value"}})},
            layer("rule", "quiet", {"x": {**x, "field": "x_low"}, "x2": {"field": "x_high"}, "y": y}),
            layer("rule", "quiet", {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}),
            layer("point", "point", {"x": x, "y": y, **each, "opacity": _FAINT_UNLESS_STRONG}, filled=True, size=110),
            {"data": {"values": _labels(points, x["scale"], most)}, **layer("text", "number", numbers)},
        ],
    }


def _labels(points: Rows, across: Chart, most: float) -> Rows:
    """Return the numbers of the servers as labels, unless some servers have several points. Close points share one.

    Args:
        across: the scale of the cost.
    """
    if len({point["number"] for point in points}) < len(points):
        return []
    along = math.log if across.get("type") == "log" else float
    width, height = along(across["domain"][1]) - along(across["domain"][0] or 1e-9), most
    groups: list[Rows] = []
    for point in points:
        near = [
            group
            for group in groups
            if any(
                abs(along(point["x"]) - along(other["x"])) < _CLOSE[0] * width
                and abs(point["y"] - other["y"]) < _CLOSE[1] * height
                for other in group
            )
        ]
        groups = [group for group in groups if group not in near]
        groups.append([*(one for group in near for one in group), point])
    middle = (along(across["domain"][0] or 1e-9) + along(across["domain"][1])) / 2
    labels: Rows = []
    for group in groups:
        costs = [one["x"] for one in group]
        is_left = along(min(costs)) > middle
        place = {"x": min(costs) if is_left else max(costs), "y": float(np.mean([one["y"] for one in group]))}
        labels.append({**place, "is_left": is_left, "text": ", ".join(one["number"] for one in group)})
    return labels


_FAINT_UNLESS_STRONG = {"condition": {"test": "datum.is_strong", "value": 1}, "value": 0.45}
_BOLD_IF_STARRED = {"condition": {"test": "indexof(datum.value, '★') == 0", "value": "bold"}, "value": "normal"}


def in_rows(names: Sequence[str], rows: Rows, *layers: Chart) -> Chart:
    """Return a chart with a row for each name; layers without their own data show `rows`."""
    axis = {"style": "rows", "labelFontWeight": _BOLD_IF_STARRED}
    y = kind("row", title=None, scale={"domain": list(names), "padding": 0}, axis=axis)
    for each in layers:
        if each["mark"]["type"] != "rule" or "x2" in each["encoding"]:  # other rules cross all rows
            each["encoding"]["y"] = y
    lines = 1 + max((name.count("\n") for name in names), default=1)
    return {"data": {"values": rows}, "width": "container", "height": {"step": 14 * lines + 12}, "layer": list(layers)}


def _bar_and_interval(x: Chart) -> list[Chart]:
    interval = {"x": {**x, "field": "low"}, "x2": {"field": "high"}}
    return [
        layer("bar", "work", {"x": x, "opacity": _FAINT_UNLESS_STRONG}, height={"band": 0.5}),
        layer("rule", "halo", dict(interval)),
        layer("rule", "interval", dict(interval)),
    ]


def names_of(cases: Sequence[Summary], figures: Sequence[str], best: str, letters: int = _LETTERS) -> list[str]:
    """Return the lines beside each row: the name, with a star if the case is among the best, and a figure."""
    names = CaseNames(cases)
    stars = ("★ " if best in case.best else "" for case in cases)
    return [
        "\n".join([*textwrap.wrap(f"{star}{_name(case, names)}", letters), figure])
        for case, figure, star in zip(cases, figures, stars, strict=True)
    ]


def _name(case: Summary, names: CaseNames) -> str:
    flag = "" if case.verdict == OK else f" ({case.verdict})"
    return f"{names.plain_with_number(case)}{flag}".replace(" (", "\N{NO-BREAK SPACE}(")


def _strong(cases: Sequence[Summary], best: str) -> list[bool]:
    """Return whether each case is among the best; if there are none, all cases are strong."""
    leads = [best in case.best for case in cases]
    return leads if any(leads) else [True] * len(cases)


def _most_per_s(cases: Sequence[Summary]) -> float:
    """Return the end of an axis of rates, on which every `ok` case, ceiling and interval is visible."""
    rates = [rate for case in cases if case.verdict == OK for rate in _rates(case).values() if rate]
    return _ROOM * max(rates, default=1.0)


def _logarithmic(longest_s: float) -> dict[str, Any]:
    """Return the scale and axis of latencies."""
    powers = [10.0**power for power in range(-3, 4) if 10.0**power <= longest_s * 2]
    scale = {"type": "log", "domain": [_LEAST_S, longest_s * 2], "nice": False}
    return {"scale": scale, "axis": {"orient": "top", "values": powers, "labelExpr": TIME}}


def _up_to(most: float) -> Chart:
    return {"domain": [0, most], "nice": False, "clamp": True}


def _rates(case: Summary) -> dict[str, Any]:
    interval = case.rate_per_s
    low, high = (None, None) if interval is None else (interval.low, interval.high)
    return {"value": case.rate or None, "low": None if low is None else max(0.0, low), "high": high}


def _rate_with_margin(case: Summary, most: float) -> str:
    text, interval = f"{formatting.rate(case.rate)}/s", case.rate_per_s
    text = formatting.with_margin(text, case.rate, interval.low, interval.high) if interval else text
    return f"{text}{', off the scale' * (case.rate > most)}"


def _p50_and_p99(times: Latency | EventTimes) -> str:
    longest = f"> {formatting.seconds(times.max)}"
    p50, p99 = (longest if each is None else formatting.seconds(each) for each in (times.p50, times.p99))
    return f"p50 {p50}, p99 {p99}"


def _cpu_text(value_ms: float | None, low_ms: float | None, high_ms: float | None) -> str:
    if high_ms is None or low_ms is None:
        return f"{_in_two_digits(value_ms or 0.0)} ms"
    if not low_ms:
        return f"at most {_in_two_digits(high_ms)} ms" if high_ms else "nothing"
    return f"{_in_two_digits(value_ms or 0.0)} ms ({_in_two_digits(low_ms)} to {_in_two_digits(high_ms)})"


def _in_two_digits(value_ms: float) -> str:
    return formatting.significant(round(value_ms, 2), 2) if round(value_ms, 2) else "0"


def _by_then(run: Round, end_s: float) -> list[tuple[float, int]]:
    """Return the points of the curve, as (seconds, responses so far), from the start to the end of the load."""
    finished_s = sorted(at_s for at_s in run.spans.ended_s.tolist() if at_s <= end_s)
    lasted_s = min(end_s, run.record.load_s or run.record.time_s)
    points = [(0.0, 0), *((at, number) for number, at in enumerate(finished_s, 1))]
    return [*points, (max(lasted_s, points[-1][0]), len(finished_s))]


def _rate_and_longest(run: Round) -> str:
    longest_s = run.pings.longest_s()
    rate = f", {formatting.rate(run.rate.per_s)}/s as measured" if run.rate.per_s else ""
    longest = f"longest ping {formatting.seconds(longest_s)}" if longest_s is not None else "no pings"
    return f"{formatting.counted(run.completed, 'response')}{rate}; {longest}"


def stream_chart(charted: ChartedCases, marks_each: int) -> Chart:
    """Chart the distributions of first events and gaps of each case, which all have streams.

    Args:
        marks_each: marks per distribution; each represents an equal share of the events.
    """
    names = names_of(
        charted.cases,
        [f"gap {_p50_and_p99(each.gap_s)}" if each.gap_s else "no gaps" for each in charted.cases],
        "gap_p99_s",
    )
    first = with_first_text(FIRST, charted.cases)
    colours = {GAPS: "var(--line-0)", first: "var(--line-1)"}
    marks: Rows = []
    medians: Rows = []
    for name, runs in zip(names, charted.rounds, strict=True):
        streams = [run.streams for run in runs if run.streams]
        for what, samples in (
            (GAPS, [each.gaps for each in streams]),
            (first, [each.first_events for each in streams]),
        ):
            drawn = [
                {"row": name, "kind": what, "wait_s": value} for value in _quantiles(together(samples), marks_each)
            ]
            marks += drawn
            medians += drawn[len(drawn) // 2 : len(drawn) // 2 + 1] if len(drawn) > marks_each // 2 else []
    longest_s = max([0.1, *(float(mark["wait_s"]) for mark in marks)])
    x = quantity("wait_s", title="waiting time of users, logarithmic", **_logarithmic(longest_s))
    colour = kind("kind", scale={"domain": list(colours), "range": list(colours.values())}, legend={"orient": "top"})
    place = {"x": x, "color": colour, "yOffset": kind("kind", scale={"domain": list(colours)})}
    return in_rows(
        names,
        marks,
        layer("tick", "wait", place, opacity=0.4, thickness=2, height={"band": 0.7}),
        {"data": {"values": medians}, **layer("tick", "wait", dict(place), thickness=4, height={"band": 0.9})},
    )


def _quantiles(samples: Waits, count: int) -> list[float]:
    """Return evenly spaced quantiles, as far as they were reached."""
    shares = (np.arange(count) + 0.5) * 100 / count
    return [max(_LEAST_S, value) for share in shares if (value := samples.percentile(float(share))) is not None]
