"""The page of a drill: the matrix, and a timeline for each server under each fault."""

from collections.abc import Iterator, Sequence
from functools import partial

from under_siege.charts.canvas import Drawing, Look, Sheet
from under_siege.charts.html import Picture, Section, page
from under_siege.faults.drill_export import HEADINGS, LEGEND, conclusion, marked, table_of
from under_siege.faults.fault import FAULTS
from under_siege.faults.fault_metrics import drilled
from under_siege.faults.survival_marks import cells_of
from under_siege.formatting import capitalized
from under_siege.model.record import Incident, Result
from under_siege.report.labels import in_brief, in_plain_words, short

_LANE, _GAP, _BIN_S = 34, 12, 0.1  # pixels, pixels, seconds
_TALLEST_PING_S = 1.0  # as tall as the lane; what waits longer, or for ever, is no taller


def drill_chart(incidents: Sequence[Incident], look: Look) -> Drawing:
    """A lane for each; the line at 0 is the moment of the fault."""
    names = 40 if look.is_narrow else 250
    width = look.width - names - 10
    from_s = -max((one.fault_at_s or 0.0 for one in incidents), default=0.0)
    to_s = max((one.ended_s - (one.fault_at_s or 0.0) for one in incidents), default=1.0)
    height = len(incidents) * (_LANE + _GAP)
    axis = {"title": "seconds since it went wrong", "tickCount": width // 90}
    sheet = Sheet(width, height, {"domain": [from_s, to_s], "nice": False}, axis)
    work, pings, labels = [], [], []
    for place, one in enumerate(incidents):
        floor = place * (_LANE + _GAP) + _LANE
        bins = _rates(one)
        most = max(bins.values(), default=1) or 1
        for number, count in bins.items():
            at_s = number * _BIN_S - (one.fault_at_s or 0.0)
            work.append({"x": at_s, "x2": at_s + _BIN_S, "y": floor - _LANE * count / most, "y2": floor})
        for due_s, waited_s, problem in zip(one.pings.due_s, one.pings.waited_s, one.pings.problem, strict=True):
            tall = min(1.0, (_TALLEST_PING_S if problem else waited_s) / _TALLEST_PING_S)
            pings.append({"x": due_s - (one.fault_at_s or 0.0), "y": floor, "y2": floor - max(1.0, _LANE * tall)})
        name = short(one.server) if look.is_narrow else in_brief(one.server, one.server, one.title)
        labels.append({"y": floor - _LANE / 2, "text": name})
    return sheet.drawn(
        sheet.bars("work", work, color=look.wait),
        sheet.posts("pings", pings, color=look.ping),
        sheet.posts("fault", [{"x": 0, "y": 0, "y2": height}], color=look.limit, strokeDash=[5, 3]),
        sheet.text("names", labels, -8, align="right", baseline="middle", fontSize=12, color=look.ink),
    )


def _rates(one: Incident) -> dict[int, int]:
    counts: dict[int, int] = {}
    for ended_s, outcome in zip(one.requests.ended_s, one.requests.outcome, strict=True):
        if not outcome:
            counts[int(ended_s / _BIN_S)] = counts.get(int(ended_s / _BIN_S), 0) + 1
    return counts


MOST_TIMELINES = 30  # servers; of more only so many are drawn


def drill_as_html(result: Result) -> str:
    cells = cells_of(result)
    faults, rows = table_of(cells)
    return page(
        "drill.html",
        result,
        heading="Who survives when things go wrong?",
        answer=list(conclusion(cells, result.left_out)),
        headings=[HEADINGS[fault] for fault in faults],
        rows=[
            (plain, name, [(marked(one), one.mark) if one else None for one in of_server])
            for plain, name, of_server in rows
        ],
        legend=LEGEND,
        sections=[Section("What happened when", list(drill_pictures(result)))],
    )


def drill_pictures(result: Result) -> Iterator[Picture]:
    """One for each fault, with the first round of each server."""
    for fault in FAULTS:
        drawn = [one for one in map(_first, (cell for cell in drilled(result.incidents) if cell.fault == fault)) if one]
        if drawn:
            names = ", ".join(in_plain_words(one.server, one.title) for one in drawn)
            yield Picture(
                f"drill-{fault}",
                HEADINGS[fault][0],
                f"{capitalized(FAULTS[fault].what)}. The area is how many right answers came, "
                "each lane by its own scale; the posts are pings, as tall as they had to wait, a whole lane for 1 s.",
                partial(drill_chart, drawn[:MOST_TIMELINES]),
                f"{HEADINGS[fault][0]}: answers and pings over time for {names}",
            )


def _first(cell: object) -> Incident | None:
    """Of the rounds of a cell the first that happened and has anything to draw."""
    found = [one for one in getattr(cell, "incidents", ()) if not one.failure and not one.without]
    return next((one for one in found if one.requests.ended_s), None)
