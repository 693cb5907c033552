"""Faults: what goes wrong on purpose."""

from dataclasses import dataclass

CONTROL = "none"  # no fault at all


@dataclass(frozen=True, slots=True)
class Fault:
    """One of them."""

    name: str
    what: str  # is done


FAULTS = {
    fault.name: fault
    for fault in (
        Fault(CONTROL, "nothing goes wrong"),
        Fault("worker", "SIGKILL to one process that works"),
        Fault("stop", "SIGTERM while tasks run that are shorter than the grace"),
        Fault("stop_long", "SIGTERM while tasks run that are longer than the grace"),
        Fault("leave", "25 clients ask and go"),
        Fault("overload", "ten times the users at once"),
        Fault("endless", "one task that never ends, then one for each worker"),
        Fault("slow", "50 connections that send half a request and stay"),
        Fault("malformed", "10,000 requests that are no HTTP, or ambiguous"),
    )
}
