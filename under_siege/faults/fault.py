"""Define a fault, and how to format and mark its metrics."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from under_siege import formatting
from under_siege.faults.fault_context import FaultContext
from under_siege.faults.incident_metrics import Figures
from under_siege.model.record import Incident

CONTROL = "none"
OK, HURT, DEAD, HIDDEN, UNMARKED = "ok", "hurt", "dead", "ping_fine_work_dead", ""
NOT_POSSIBLE = "–"  # noqa: RUF001 (an en dash, as in a table)
NEVER = -1.0  # for `Incident.seen`, because JSON has no infinity
PING_FINE_S = 0.1  # health checks pass if they are answered within this time
QUICK_RECOVERY_S, NEVER_S = 1.0, 5.0  # a recovery is quick up to the first, and counts as never beyond the second
SOON_S = 0.001  # shorter times are shown as "at once"
LEFT_DEAD, LEFT_OK = 0.05, 0.3  # shares of the rate before the fault: dead below the first, ok at or above the second


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its action, the servers it applies to, and how to measure, show and mark its outcome.

    Variants, such as SIGTERM with short and with long tasks, are separate faults.
    """

    name: str
    description: str
    heading: str
    columns: tuple[str, str]  # headings of the two lines in each cell
    inject: Callable[[FaultContext], Awaitable[None]]
    texts: Callable[[Figures], tuple[str, str]]
    mark: Callable[[Figures], str] = lambda _: UNMARKED
    measure: Callable[[Incident], Figures] = lambda _: {}  # figures in addition to `Incident.seen`
    option: str = ""  # value of --fault that selects the fault; empty: its name
    is_once: bool = False  # whether to inject it in the first round only, because the outcome does not vary
    ends_server: bool = False
    has_own_server: bool = False  # whether it needs a separate server
    is_remote: bool = False  # whether it also applies to servers that the bench did not start
    needs_builtin_tasks: bool = False
    posts_jobs: bool = False
    broker_on_disk: bool | None = None  # whether the separate broker keeps its data on disk; None: no separate broker


def dead_mark(ping_s: float | None) -> str:
    """Return the mark of a server that no longer answers requests."""
    return HIDDEN if ping_s is not None and ping_s <= PING_FINE_S else DEAD


def mark_of_rate(left: float | None, ping_s: float | None) -> str:
    """Return the mark of a server whose rate fell to this share."""
    left = left or 0.0
    return dead_mark(ping_s) if left < LEFT_DEAD else OK if left >= LEFT_OK else HURT


def seconds(value: float | None) -> str:
    """Format a duration; None means never."""
    return "never" if value is None else formatting.seconds(value)


def after(value: float | None) -> str:
    """Format a recovery time."""
    return "at once" if value is not None and value < SOON_S else seconds(value)


def ping(figures: Figures, name: str = "ping_p99_s") -> str:
    """Format a ping latency; a dash if there were no pings."""
    if name not in figures:
        return NOT_POSSIBLE
    value = figures[name]
    return "no answer" if value is None else formatting.seconds(value)


def share(value: float | None) -> str:
    """Format a share; None counts as 0."""
    return formatting.share(value or 0.0)


def count(value: float | None) -> str:
    """Format a count; None means unknown."""
    return "?" if value is None else f"{value:,.0f}"
