"""Define the structure of a fault, and functions that format and mark its metrics."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from under_siege import formatting
from under_siege.drill.fault_context import FaultContext
from under_siege.drill.incident_metrics import Figures
from under_siege.record.record import Incident

CONTROL = "none"
OK, HURT, DEAD, HIDDEN, UNMARKED = "ok", "hurt", "dead", "ping_fine_work_dead", ""
NOT_POSSIBLE = "–"  # noqa: RUF001 (an en dash, as in a table)
NEVER = -1.0  # represents an infinite time in `Incident.seen`, because JSON has no infinity
PING_FINE_S = 0.1  # health checks pass if they are answered within this time
# A recovery within QUICK_RECOVERY_S is quick. A server that takes longer than NEVER_S counts as never recovered.
QUICK_RECOVERY_S, NEVER_S = 1.0, 5.0
SOON_S = 0.001  # shorter recovery times are shown as "at once"
# Shares of the rate before the fault: a server is dead below LEFT_DEAD, and ok at or above LEFT_OK.
LEFT_DEAD, LEFT_OK = 0.05, 0.3


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, the servers that it applies to, and functions that measure, show and mark its outcome.

    Variants, such as SIGTERM during short and during long tasks, are separate faults.
    """

    name: str
    description: str
    heading: str
    columns: tuple[str, str]  # headings of the two lines in each cell
    inject: Callable[[FaultContext], Awaitable[None]]
    texts: Callable[[Figures], tuple[str, str]]
    mark: Callable[[Figures], str] = lambda _: UNMARKED
    measure: Callable[[Incident], Figures] = lambda _: {}  # figures in addition to `Incident.seen`
    option: str = ""  # value of --fault that selects the fault; if empty, the name of the fault
    is_once: bool = False  # whether the fault is injected only in the first round, because its outcome does not vary
    ends_server: bool = False
    has_own_server: bool = False  # whether the fault needs a separate server
    is_remote: bool = False  # whether the fault also applies to servers that the bench did not start
    needs_builtin_tasks: bool = False
    posts_jobs: bool = False
    broker_on_disk: bool | None = None  # whether the separate broker keeps its data on disk; None: no separate broker


def dead_mark(ping_s: float | None) -> str:
    """Return the mark of a server that no longer runs tasks: HIDDEN if its pings are fast, and DEAD otherwise."""
    return HIDDEN if ping_s is not None and ping_s <= PING_FINE_S else DEAD


def mark_of_rate(left: float | None, ping_s: float | None) -> str:
    """Return the mark of a server whose rate dropped to the share `left` of the rate before the fault."""
    left = left or 0.0
    return dead_mark(ping_s) if left < LEFT_DEAD else OK if left >= LEFT_OK else HURT


def seconds(value: float | None) -> str:
    """Format a duration, or return `never` for None."""
    return "never" if value is None else formatting.seconds(value)


def after(value: float | None) -> str:
    """Format a recovery time, or return `at once` if it is negligible."""
    return "at once" if value is not None and value < SOON_S else seconds(value)


def ping(figures: Figures, name: str = "ping_p99_s") -> str:
    """Format a ping latency, or return a dash if there were no pings."""
    if name not in figures:
        return NOT_POSSIBLE
    value = figures[name]
    return "no response" if value is None else formatting.seconds(value)


def share(value: float | None) -> str:
    """Format a share as a percentage, counting None as 0."""
    return formatting.share(value or 0.0)


def count(value: float | None) -> str:
    """Format a count, or return a question mark for None."""
    return "?" if value is None else f"{value:,.0f}"
