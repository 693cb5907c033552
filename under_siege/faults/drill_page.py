"""The page of a drill: the matrix, and a timeline for each server under each fault."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

from under_siege.charts.canvas import Drawing, Look, Sheet
from under_siege.charts.html import Picture, Section, page
from under_siege.faults.drill_export import LEGEND, conclusion, heading, marked, matrix_of
from under_siege.faults.drill_result import FAULTS, FaultOutcome, fault_outcomes
from under_siege.faults.incident_metrics import right_s
from under_siege.formatting import capitalized
from under_siege.model.record import Incident, Result
from under_siege.report.labels import in_brief, in_plain_words, short

_LANE, _GAP, _BIN_S = 34, 12, 0.1  # pixels, pixels, seconds
_TALLEST_PING_S = 1.0  # as tall as the lane; what waits longer, or for ever, is no taller
MOST_TIMELINES = 30  # servers in one picture


def drill_chart(incidents: Sequence[Incident], look: Look) -> Drawing:
    """Draw a lane for each incident; the line at 0 is the moment of the fault."""
    names = 40 if look.is_narrow else 250
    width = look.width - names - 10
    from_s = -max((incident.fault_at_s or 0.0 for incident in incidents), default=0.0)
    to_s = max((incident.ended_s - (incident.fault_at_s or 0.0) for incident in incidents), default=1.0)
    height = len(incidents) * (_LANE + _GAP)
    axis = {"title": "seconds since it went wrong", "tickCount": width // 90}
    sheet = Sheet(width, height, {"domain": [from_s, to_s], "nice": False}, axis)
    work, pings, labels = [], [], []
    for index, incident in enumerate(incidents):
        floor, fault_at_s = index * (_LANE + _GAP) + _LANE, incident.fault_at_s or 0.0
        bins = Counter(int(ended_s / _BIN_S) for ended_s in right_s(incident))
        for number, count in bins.items():
            at_s = number * _BIN_S - fault_at_s
            top = floor - _LANE * count / max(bins.values())
            work.append({"x": at_s, "x2": at_s + _BIN_S, "y": top, "y2": floor})
        columns = incident.pings
        for due_s, waited_s, problem in zip(columns.due_s, columns.waited_s, columns.problem, strict=True):
            tall = min(1.0, (_TALLEST_PING_S if problem else waited_s) / _TALLEST_PING_S)
            pings.append({"x": due_s - fault_at_s, "y": floor, "y2": floor - max(1.0, _LANE * tall)})
        server = incident.server
        name = short(server) if look.is_narrow else in_brief(server, server, incident.title)
        labels.append({"y": floor - _LANE / 2, "text": name})
    return sheet.drawn(
        sheet.bars("work", work, color=look.wait),
        sheet.posts("pings", pings, color=look.ping),
        sheet.posts("fault", [{"x": 0, "y": 0, "y2": height}], color=look.limit, strokeDash=[5, 3]),
        sheet.text("names", labels, -8, align="right", baseline="middle", fontSize=12, color=look.ink),
    )


def drill_as_html(result: Result) -> str:
    """Return one page that holds everything."""
    outcomes = fault_outcomes(result.incidents)
    faults, rows = matrix_of(outcomes)
    return page(
        "drill.html",
        result,
        heading="Who survives when things go wrong?",
        answer=list(conclusion(outcomes, result.left_out)),
        headings=[heading(fault) for fault in faults],
        rows=[
            (plain, name, [(marked(cell), cell.mark) if cell else None for cell in cells])
            for plain, name, cells in rows
        ],
        legend=LEGEND,
        sections=[Section("What happened when", list(drill_pictures(result)))],
    )


def drill_pictures(result: Result) -> Iterator[Picture]:
    """Yield a picture for each fault, with the first round of each server."""
    outcomes = fault_outcomes(result.incidents)
    for fault in FAULTS.values():
        drawn = [incident for one in outcomes if one.fault == fault.name and (incident := _first(one))]
        if drawn:
            names = ", ".join(in_plain_words(incident.server, incident.title) for incident in drawn)
            yield Picture(
                f"drill-{fault.name}",
                fault.heading,
                f"{capitalized(fault.description)}. The area is how many right answers came, "
                "each lane by its own scale; the posts are pings, as tall as they had to wait, a whole lane for 1 s.",
                partial(drill_chart, drawn[:MOST_TIMELINES]),
                f"{fault.heading}: answers and pings over time for {names}",
            )


def _first(outcome: FaultOutcome) -> Incident | None:
    """Return the first round that happened, if it has anything to draw."""
    happened = (one for one in outcome.incidents if not one.failure and not one.without)
    return next((incident for incident in happened if incident.requests.ended_s), None)
