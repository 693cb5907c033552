"""Chart timelines with a common time axis."""

import textwrap
from collections.abc import Iterator, Sequence

from under_siege import formatting
from under_siege.show.charts import LINES, TIME, Chart, Rows, kind, layer, quantity
from under_siege.trace.timeline import Bar, Timeline, axis_end_s, full_name, grouped, heading, summary_line

_STATES = {"waits for its turn": "var(--wait)", "computes": "var(--work)", "ready, not yet sent": "var(--late)"}
_WAITING, _COMPUTING, _READY = _STATES
_LETTERS, _LETTERS_OF_A_SLIDE = 42, 38  # maximum length of a line above a timeline
_MOST_ON_SLIDE = 4
_PING_ROWS = 4


def timeline_chart(drawn: Sequence[Timeline], columns: int = 1, *, is_brief: bool = False) -> Chart:
    """Chart requests as bars in the lanes of their workers, and pings as lines; similar timelines are neighbours."""
    ordered = [timeline for _, members in grouped(drawn) for timeline in members]
    names = [_above(timeline, is_brief=is_brief) for timeline in ordered]
    rows = [{"timeline": name, **row} for name, timeline in zip(names, ordered, strict=True) for row in _rows(timeline)]
    end_s = axis_end_s(drawn)
    ticks = {"values": formatting.ticks(end_s, 6), "labelExpr": TIME, "orient": "top", "ticks": False, "domain": False}
    x = quantity("from_s", title=None, scale={"domain": [0, end_s], "nice": False}, axis=ticks)
    lane = {
        "title": None,
        "sort": {"field": "order", "op": "min"},
        "scale": {"padding": 0.05},
        "axis": {"style": "lanes"},
    }
    place = {"x": x, "x2": {"field": "to_s"}, "y": kind("lane", **lane)}
    scale, legend = {"domain": list(_STATES), "range": list(_STATES.values())}, {"orient": "top", "columns": 3}
    state = {"color": kind("state", scale=scale, legend=legend), "opacity": quantity("share", scale=None)}
    number = {"x": {**x, "field": "to_s"}, "y": place["y"], "text": kind("number")}
    layers = [
        {"transform": [{"filter": "isValid(datum.state)"}], **layer("bar", "bar", {**place, **state})},
        {"transform": [{"filter": "datum.mark == 'elsewhere'"}], **layer("rule", "elsewhere", place)},
        {"transform": [{"filter": "datum.mark == 'unreported'"}], **layer("rule", "unreported", place)},
        {"transform": [{"filter": "datum.mark == 'ping'"}], **layer("rule", "ping", place, strokeWidth=2.5)},
        {"transform": [{"filter": "isValid(datum.number)"}], **layer("text", "order", number)},
    ]
    return {
        "data": {"values": rows},
        "facet": kind("timeline", sort=names, header={"labelExpr": LINES}),
        "columns": columns,
        "spec": {"width": "container", "height": {"step": 11}, "layer": layers},
        "resolve": {"scale": {"y": "independent"}, "axis": {"x": "independent"}},
    }


def slide(drawn: Sequence[Timeline], columns: int = 1) -> Chart:
    """Chart the fastest timeline of each group, which shows its pattern best, or all if several columns are wanted."""
    groups = [members for _, members in grouped(drawn)]
    if columns == 1 and len(groups) == 1:
        drawn = drawn[:_MOST_ON_SLIDE]
    elif columns == 1:
        drawn = [min(members, key=lambda timeline: timeline.done_s) for members in groups[:_MOST_ON_SLIDE]]
    return timeline_chart(drawn, min(2, len(drawn)), is_brief=True)


def _above(timeline: Timeline, *, is_brief: bool) -> str:
    """Return the lines above a timeline: its name, its pattern and, unless `is_brief`, a summary."""
    texts = [full_name(timeline, is_plain=is_brief), heading(timeline.pattern, [timeline])]
    texts += [] if is_brief else [summary_line(timeline)]
    return "\n".join(
        line for text in texts for line in textwrap.wrap(text, _LETTERS_OF_A_SLIDE if is_brief else _LETTERS)
    )


def _rows(timeline: Timeline) -> Iterator[dict[str, object]]:
    """Yield the marks of a timeline; `order` is their position from top to bottom."""
    order = 0
    if timeline.failure:
        yield {"lane": "", "order": order}  # shows the lines above it
    for lane in timeline.lanes:
        for place, bar in enumerate(lane.bars):
            yield from ({"lane": f"{lane.worker}\n{place}", "order": order, **row} for row in _of_request(bar))
            order += 1
    free_at_s: list[float] = []
    for ping in (ping for ping in timeline.pings if ping.due_s >= 0):
        row = next((row for row, free_s in enumerate(free_at_s) if free_s < ping.due_s), len(free_at_s))
        end_s = ping.due_s + ping.waited_s
        free_at_s[row : row + 1] = [end_s + 0.004]
        place = row % _PING_ROWS
        yield {"lane": f"pings\n{place}", "order": order + place, "mark": "ping", "from_s": ping.due_s, "to_s": end_s}


def _of_request(bar: Bar) -> Rows:
    end = {"from_s": bar.answered_s, "to_s": bar.answered_s, "number": str(bar.number)}
    if bar.done_s is None:
        return [{"mark": "unreported", "from_s": bar.sent_s, "to_s": bar.answered_s}, end]
    waits = sorted(bar.io_waits)
    edges = [bar.sent_s, *(at_s for wait in waits for at_s in wait), bar.done_s]
    return [
        *(_part(_WAITING, *edges[place : place + 2]) for place in range(0, len(edges), 2)),
        *({"mark": "elsewhere", "from_s": from_s, "to_s": to_s} for from_s, to_s in waits),
        *(_part(_COMPUTING, span.from_s, span.to_s, 0.6 if span.share is None else span.share) for span in bar.spans),
        *([_part(_READY, bar.done_s, bar.answered_s)] if bar.late_s > 0.0005 else []),
        end,
    ]


def _part(state: str, from_s: float, to_s: float, share: float = 1.0) -> dict[str, object]:
    return {"state": state, "from_s": from_s, "to_s": to_s, "share": share}
