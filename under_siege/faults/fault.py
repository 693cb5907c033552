"""What a fault consists of, and how the marks and figures of a fault are derived from an incident."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from under_siege import formatting
from under_siege.model.record import Incident
from under_siege.model.requests import FAILED_OUTCOMES

if TYPE_CHECKING:
    from under_siege.faults.fault_context import FaultContext

CONTROL = "none"
OK, HURT, DEAD, HIDDEN, UNMARKED = "ok", "hurt", "dead", "ping_fine_work_dead", ""
NOT_POSSIBLE = "–"  # noqa: RUF001 (as a table has it)
NEVER = -1.0  # in `Incident.seen`, because JSON has no infinity
SETTLE_S, WINDOW_S, RECOVERED = 0.3, 0.5, 0.8  # recovered: this share of the rate before the fault, for this long
PING_FINE_S = 0.1  # a health check answered within this passes
RECOVERY_LIMIT_S = 1.0
SOON_S = 0.001  # shorter times are shown as "at once"
LEFT_DEAD, LEFT_OK = 0.05, 0.3  # shares of the rate
Figures = dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: what is done, on which servers, and how the outcome is measured, shown and marked.

    Each part of a fault that has several, such as SIGTERM with short and with long tasks, is a fault of its own.
    """

    name: str
    description: str
    heading: str
    columns: tuple[str, str]  # the headings of the two lines of its cells
    inject: Callable[[FaultContext], Awaitable[None]]
    texts: Callable[[Figures], tuple[str, str]]
    mark: Callable[[Figures], str] = lambda _: UNMARKED
    measure: Callable[[Incident], Figures] = lambda _: {}  # figures in addition to `Incident.seen`
    option: str = ""  # value of --fault that selects it; empty: its name
    is_once: bool = False  # it has the same outcome in every round, so that one is enough
    ends_server: bool = False
    has_own_server: bool = False  # nothing else happens to that server
    is_remote: bool = False  # it can happen to a server that was not started here
    needs_own_tasks: bool = False
    posts_jobs: bool = False
    broker_on_disk: bool | None = None  # whether the separate broker that it needs keeps its data on disk


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


def dead(ping_s: float | None) -> str:
    """Return the mark of a server that does no work any more."""
    return HIDDEN if ping_s is not None and ping_s <= PING_FINE_S else DEAD


def mark_of_rate(left: float | None, ping_s: float | None) -> str:
    """Return the mark of a server that has this share of its rate left."""
    left = left or 0.0
    return dead(ping_s) if left < LEFT_DEAD else OK if left >= LEFT_OK else HURT


def seconds(value: float | None) -> str:
    """Format a duration; None is never."""
    return "never" if value is None else formatting.seconds(value)


def after(value: float | None) -> str:
    """Format a recovery time."""
    return "at once" if value is not None and value < SOON_S else seconds(value)


def ping(figures: Figures, name: str = "ping_p99_s") -> str:
    """Format a ping latency, if there is one."""
    if name not in figures:
        return NOT_POSSIBLE
    value = figures[name]
    return "no answer" if value is None else formatting.seconds(value)


def share(value: float | None) -> str:
    """Format a share."""
    return formatting.share(value or 0.0)


def count(value: float | None) -> str:
    """Format a count; None is not known."""
    return "?" if value is None else f"{value:,.0f}"
