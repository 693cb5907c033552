"""Draw the timelines of a drill."""

from collections import Counter
from collections.abc import Sequence

from under_siege.drill.incident_metrics import answered_at_s
from under_siege.judge.case_names import in_brief, short
from under_siege.record.record import Incident
from under_siege.show.canvas import Drawing, Sheet, Theme

_LANE, _GAP, _BIN_S = 34, 12, 0.1  # height of a lane and of a gap in pixels, and width of a bar in seconds
_TALLEST_PING_S = 1.0  # pings that take at least this long are drawn as tall as their lane


def drill_chart(incidents: Sequence[Incident], theme: Theme) -> Drawing:
    """Draw a lane for each incident, and a vertical line at the time of the fault."""
    names = 40 if theme.is_narrow else 250
    width = theme.width - names - 10
    from_s = -max((incident.fault_at_s or 0.0 for incident in incidents), default=0.0)
    to_s = max((incident.ended_s - (incident.fault_at_s or 0.0) for incident in incidents), default=1.0)
    height = len(incidents) * (_LANE + _GAP)
    axis = {"title": "seconds since the fault", "tickCount": width // 90}
    sheet = Sheet(width, height, {"domain": [from_s, to_s], "nice": False}, axis)
    work, pings, labels = [], [], []
    for index, incident in enumerate(incidents):
        floor, fault_at_s = index * (_LANE + _GAP) + _LANE, incident.fault_at_s or 0.0
        bins = Counter(int(ended_s / _BIN_S) for ended_s in answered_at_s(incident))
        for number, count in bins.items():
            at_s = number * _BIN_S - fault_at_s
            top = floor - _LANE * count / max(bins.values())
            work.append({"x": at_s, "x2": at_s + _BIN_S, "y": top, "y2": floor})
        columns = incident.pings
        for due_s, waited_s, problem in zip(columns.due_s, columns.waited_s, columns.problem, strict=True):
            tall = min(1.0, (_TALLEST_PING_S if problem else waited_s) / _TALLEST_PING_S)
            pings.append({"x": due_s - fault_at_s, "y": floor, "y2": floor - max(1.0, _LANE * tall)})
        server = incident.server
        name = short(server) if theme.is_narrow else in_brief(server, server, incident.title)
        labels.append({"y": floor - _LANE / 2, "text": name})
    return sheet.drawn(
        sheet.bars("work", work, color=theme.wait),
        sheet.posts("pings", pings, color=theme.ping),
        sheet.posts("fault", [{"x": 0, "y": 0, "y2": height}], color=theme.limit, strokeDash=[5, 3]),
        sheet.text("names", labels, -8, align="right", baseline="middle", fontSize=12, color=theme.ink),
    )
