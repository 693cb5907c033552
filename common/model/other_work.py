"""How much other work ran on the machine during a trace, and whether it left room for two tasks at once."""

from common.model.record import Trace

ROOM_FOR_TWO = 1.5  # CPUs: with fewer, two tasks at once look much like one at a time


def other_work(trace: Trace) -> float | None:
    """Return the share of all CPUs that neither the server nor the bench got; None if unknown."""
    machine, server_s, bench_s = trace.machine, trace.server_cpu_s, trace.bench_cpu_s
    if machine is None or server_s is None or bench_s is None or machine.total_s <= 0:
        return None
    return min(1.0, max(0.0, (machine.busy_s + machine.steal_s - server_s - bench_s) / machine.total_s))


def is_crowded(trace: Trace) -> bool:
    """Return whether other work left so little of several CPUs that two tasks could not run in parallel."""
    share, requests = other_work(trace), trace.requests
    lasted_s = max(requests.answered_s, default=0.0) - min(requests.sent_s, default=0.0)
    if share is None or trace.machine is None or lasted_s <= 0:
        return False
    cpus = round(trace.machine.total_s / lasted_s)
    return cpus > 1 and cpus * (1 - share) < ROOM_FOR_TWO
