"""Chart the course of a drill."""

from collections import Counter
from collections.abc import Sequence

from under_siege.drill.incident_metrics import answered_at_s
from under_siege.judge.case_names import in_brief
from under_siege.record.record import Incident
from under_siege.show.charts import Chart, Rows, kind, layer, quantity

_BIN_S = 0.1  # width of a bar in seconds
_TALLEST_PING_S = 1.0  # pings that take at least this long are drawn as tall as their row


def drill_chart(incidents: Sequence[Incident], columns: int = 1) -> Chart:
    """Chart the responses and pings of each incident over time, and the time of the fault as a vertical line."""
    every = [{"row": _name(incident), "at_s": 0.0} for incident in incidents]  # even one without responses and pings
    rows = [*every, *(row for incident in incidents for row in (*_responses(incident), *_pings(incident)))]
    x = quantity("at_s", title="seconds since the fault", axis={"grid": False}, scale={"nice": False})
    y = quantity("share", title=None, axis=None, scale={"domain": [0, 1]})
    bar = {"x": x, "x2": {"field": "to_s"}, "y": y, "y2": {"datum": 0}}
    ping = {"x": x, "y": {**y, "field": "height"}, "y2": {"datum": 0}}
    layers = [
        {"transform": [{"filter": "isValid(datum.share)"}], **layer("rect", "wait", bar)},
        {"transform": [{"filter": "isValid(datum.height)"}], **layer("rule", "ping", ping)},
        {"data": {"values": [{"at_s": 0}]}, **layer("rule", "limit", {"x": x})},
    ]
    return {
        "data": {"values": rows},
        "facet": kind("row", sort=list(dict.fromkeys(map(_name, incidents)))),
        "columns": columns,
        "spacing": {"row": 4, "column": 20},
        "spec": {"width": "container", "height": 36, "layer": layers},
    }


def _responses(incident: Incident) -> Rows:
    """Return the rate of correct responses, as a share of its maximum."""
    bins = Counter(int(ended_s / _BIN_S) for ended_s in answered_at_s(incident))
    starts_s = {number: number * _BIN_S - (incident.fault_at_s or 0.0) for number in bins}
    return [
        {"row": _name(incident), "at_s": starts_s[number], "to_s": starts_s[number] + _BIN_S}
        | {"share": count / max(bins.values())}
        for number, count in bins.items()
    ]


def _pings(incident: Incident) -> Rows:
    columns = (incident.pings.due_s, incident.pings.waited_s, incident.pings.problem)
    return [
        {"row": _name(incident), "at_s": due_s - (incident.fault_at_s or 0.0)}
        | {"height": 1.0 if problem else min(1.0, max(0.03, waited_s / _TALLEST_PING_S))}
        for due_s, waited_s, problem in zip(*columns, strict=True)
    ]


def _name(incident: Incident) -> str:
    return in_brief(incident.server, incident.server, incident.title)
