"""A fault drawn: for each server how much was answered, and how long pings waited, before, during and after it."""

from collections.abc import Sequence

from common.model.record import Incident
from common.report.charts.look import Drawing, Look
from common.report.charts.sheet import Sheet
from common.report.words.naming import in_brief, short

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
    """How many right answers came in each tenth of a second."""
    counts: dict[int, int] = {}
    for ended_s, outcome in zip(one.requests.ended_s, one.requests.outcome, strict=True):
        if not outcome:
            counts[int(ended_s / _BIN_S)] = counts.get(int(ended_s / _BIN_S), 0) + 1
    return counts
