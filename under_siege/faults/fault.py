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
        Fault("jobs_worker", "40 jobs are posted, then SIGKILL to one process that works"),
        Fault("jobs_server", "40 jobs are posted, then SIGKILL to the server, which is started again"),
        Fault("jobs_server_apart", "the same with a broker that is not the server's own"),
        Fault("jobs_broker", "40 jobs are posted, then SIGKILL to a broker without a disk, which is started again"),
        Fault("jobs_broker_disk", "the same with a broker that keeps all on disk"),
    )
}
