"""Compute the metrics of one incident: rates, recovery time and ping latency."""

from collections.abc import Collection

import numpy as np

from under_siege.judge.estimators import Rows, waits
from under_siege.record.record import Incident
from under_siege.record.requests import CORRECT, FAILED_OUTCOMES, LOAD, PING

# The rate before the fault is measured after the first SETTLE_S of the load, unless large responses need longer. A
# server has recovered once its rate over WINDOW_S is at least RECOVERED times the rate before the fault.
SETTLE_S = 0.3
WINDOW_S = 0.5
RECOVERED = 0.8
Figures = dict[str, float | None]


def under_load(incident: Incident) -> Figures:
    """Return the rates before and after the fault and, if there were pings, their latency after the fault."""
    at_s = incident.fault_at_s or 0.0
    before = rate_between(incident, incident.seen.get("settled_s", SETTLE_S), at_s)
    after = rate_between(incident, at_s, incident.ended_s)
    figures: Figures = {"before_per_s": before, "after_per_s": after, "left": after / before if before else 0.0}
    if PING in incident.requests.sender:
        figures["ping_p99_s"] = ping_p99_s(incident, at_s, incident.ended_s)
    return figures


def with_recovery(incident: Incident) -> Figures:
    """Return the figures under load, the number of requests lost after the fault, and the recovery time."""
    at_s = incident.fault_at_s or 0.0
    return under_load(incident) | {
        "lost": float(sum(ended_s >= at_s for ended_s in failed_at_s(incident))),
        "whole_s": recovery_s(incident, incident.ended_s - WINDOW_S),
    }


def with_gap(incident: Incident) -> Figures:
    """Return the figures with recovery, and the longest time after the fault in which no correct response arrived."""
    at_s = incident.fault_at_s or 0.0
    answered_s = np.sort(answered_at_s(incident))
    answered_s = answered_s[(answered_s > at_s) & (answered_s < incident.ended_s)]
    gap_s = float(np.diff([at_s, *answered_s, incident.ended_s]).max())
    return with_recovery(incident) | {"gap_s": gap_s}


def answered_at_s(incident: Incident) -> list[float]:
    """Return the times at which correct responses arrived."""
    return _ended_at_s(incident, {CORRECT})


def failed_at_s(incident: Incident) -> list[float]:
    """Return the times at which requests failed, not counting refused requests."""
    return _ended_at_s(incident, FAILED_OUTCOMES)


def _ended_at_s(incident: Incident, outcomes: Collection[str]) -> list[float]:
    rows = incident.requests.only(LOAD)
    return [ended_s for ended_s, outcome in zip(rows.ended_s, rows.outcome, strict=True) if outcome in outcomes]


def rate_between(incident: Incident, from_s: float, to_s: float) -> float:
    """Return the rate of correct responses between two times."""
    if to_s <= from_s:
        return 0.0
    return sum(from_s <= ended_s < to_s for ended_s in answered_at_s(incident)) / (to_s - from_s)


def recovery_s(incident: Incident, until_s: float) -> float | None:
    """Return the time from the fault to the first window of WINDOW_S, after the last failure, with a recovered rate.

    Return None if no such window begins by `until_s`.
    """
    at_s = incident.fault_at_s or 0.0
    before = rate_between(incident, SETTLE_S, at_s)
    quiet_s = max([at_s, *failed_at_s(incident)])
    answered_s = np.sort(answered_at_s(incident))
    # A window with the maximum number of responses begins at a response, so also try the times of responses.
    in_range = answered_s[(answered_s >= quiet_s) & (answered_s <= until_s)]
    begins = np.concatenate([np.arange(quiet_s, until_s + 1e-9, 0.01), in_range])
    begins.sort()
    inside = np.searchsorted(answered_s, begins + WINDOW_S) - np.searchsorted(answered_s, begins)
    recovered = begins[inside / WINDOW_S >= RECOVERED * before]
    return float(recovered[0] - at_s) if recovered.size else None


def ping_p99_s(incident: Incident, from_s: float, to_s: float) -> float | None:
    """Return the p99 latency of the pings due between two times, or None if more than 1 % got no correct response."""
    pings = Rows.of(incident.requests, PING)
    return waits(pings[(pings.due_s >= from_s) & (pings.due_s < to_s)]).percentile(99)
