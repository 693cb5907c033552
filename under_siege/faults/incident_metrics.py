"""Figures of one incident: rates, recovery time and ping latency."""

import numpy as np

from under_siege.model.record import FAILED_OUTCOMES, Incident

SETTLE_S, WINDOW_S, RECOVERED = 0.3, 0.5, 0.8  # recovered: this share of the rate before the fault, for this long
Figures = dict[str, float | None]


def under_load(incident: Incident) -> Figures:
    """Return the rates before and after the fault, and the ping latency after it if the suite has a ping."""
    at_s = incident.fault_at_s or 0.0
    figures: Figures = {
        "before_per_s": rate_between(incident, SETTLE_S, at_s),
        "after_per_s": rate_between(incident, at_s, incident.ended_s),
    }
    if incident.pings.due_s:
        figures["ping_p99_s"] = ping_p99_s(incident, at_s, incident.ended_s)
    return figures


def right_s(incident: Incident) -> list[float]:
    """Return the times of right answers."""
    ended = zip(incident.requests.ended_s, incident.requests.outcome, strict=True)
    return [ended_s for ended_s, outcome in ended if not outcome]


def failed_s(incident: Incident) -> list[float]:
    """Return when requests ended without a right answer, refusals not counted."""
    ended = zip(incident.requests.ended_s, incident.requests.outcome, strict=True)
    return [ended_s for ended_s, outcome in ended if outcome in FAILED_OUTCOMES]


def rate_between(incident: Incident, from_s: float, to_s: float) -> float:
    """Return the right answers per second between two times."""
    if to_s <= from_s:
        return 0.0
    return sum(from_s <= ended_s < to_s for ended_s in right_s(incident)) / (to_s - from_s)


def recovery_s(incident: Incident, until_s: float) -> float | None:
    """Return the time from the fault until the rate was back for WINDOW_S and no request failed any more.

    None if no such window begins before `until_s`.
    """
    at_s = incident.fault_at_s or 0.0
    before = rate_between(incident, SETTLE_S, at_s)
    quiet_s = max([at_s, *failed_s(incident)])
    right = np.sort(right_s(incident))
    # The windows with the most answers begin with one.
    begins = np.concatenate([np.arange(quiet_s, until_s + 1e-9, 0.01), right[(right >= quiet_s) & (right <= until_s)]])
    begins.sort()
    inside = np.searchsorted(right, begins + WINDOW_S) - np.searchsorted(right, begins)
    recovered = begins[inside / WINDOW_S >= RECOVERED * before]
    return float(recovered[0] - at_s) if recovered.size else None


def ping_p99_s(incident: Incident, from_s: float, to_s: float) -> float | None:
    """Return the p99 of the pings due between two times; None if too many of them were never answered."""
    pings = zip(incident.pings.due_s, incident.pings.waited_s, incident.pings.problem, strict=True)
    waits = sorted(np.inf if problem else waited_s for due_s, waited_s, problem in pings if from_s <= due_s < to_s)
    p99_s = waits[min(len(waits) - 1, int(0.99 * len(waits)))] if waits else np.inf
    return None if p99_s == np.inf else p99_s
