"""Define the structure of a fault, and the marks that describe how a server reacted to it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from under_siege.drill.incident_metrics import Figures
from under_siege.drill.loaded_server import FaultContext
from under_siege.record.record import Incident

CONTROL = "none"
OK, HURT, DEAD, HIDDEN, UNMARKED = "ok", "hurt", "dead", "ping_fine_work_dead", ""
NEVER = -1.0  # represents an infinite time in `Incident.seen`, because JSON has no infinity
NEVER_S = 5.0  # a server that takes longer than this to recover counts as never recovered

Column = tuple[str, Callable[[Figures], str]]  # heading of a line in each cell, and the text of this line


class Need(StrEnum):
    """What a fault needs. The value says why the fault does not apply to a server that lacks it."""

    PROCESS = "the bench did not start it"
    TASKS = "it does not run the built-in tasks"
    JOBS = "it accepts no jobs"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, the servers that it applies to, and functions that measure, show and mark its outcome.

    Variants, such as SIGTERM during short and during long tasks, are separate faults.
    """

    name: str
    heading: str
    description: str
    columns: tuple[Column, Column]
    inject: Callable[[FaultContext], Awaitable[None]]
    mark: Callable[[Figures], str] = lambda _: UNMARKED
    measure: Callable[[Incident], Figures] = lambda _: {}  # figures in addition to `Incident.seen`
    needs: tuple[Need, ...] = ()
    option: str = ""  # value of --fault that selects the fault; if empty, the name of the fault
    is_once: bool = False  # whether the fault is injected only in the first round, because its outcome does not vary
    ends_server: bool = False
