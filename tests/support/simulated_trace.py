"""Simulate traces of all kinds of strategies, with known figures."""

from under_siege.record.record import Machine, Trace, TracedRequests
from under_siege.record.requests import CORRECT, PING, Requests
from under_siege.record.result import Result, SkippedServer

TASK_S, PING_S, SENT_S = 0.05, 0.025, 0.1
Ran = list[tuple[float, float, float | None]]


def pings_of(due_s: list[float], waited_s: list[float]) -> Requests:
    """Return pings that were sent when they were due."""
    pings = Requests()
    for at_s, wait_s in zip(due_s, waited_s, strict=True):
        pings.add(PING, sent_s=at_s, ended_s=at_s + wait_s, status=200, outcome=CORRECT)
    return pings


def traced(
    server: str, title: str, workers: list[str], ran: list[Ran], waits: float, late_s: float = 0.0, task: str = "primes"
) -> Trace:
    """Return a trace with these compute spans; a ping takes `waits` times the time left until the last response."""
    answered = [one[-1][1] + late_s for one in ran]
    done_s = max(answered)
    due = [number * PING_S for number in range(int((done_s + 0.1) / PING_S))]
    waited = [0.002 + waits * max(0.0, done_s - at) * (at >= SENT_S) for at in due]
    return Trace(
        server=server,
        title=title,
        values={"task": task, "python": "3.11.7"},
        requests=TracedRequests([SENT_S] * len(ran), answered, workers, ran),
        pings=pings_of(due, waited),
    )


def sequential_spans(count: int = 8, each_s: float = TASK_S, cpu: float = 1.0, first: int = 0) -> list[Ran]:
    """Return the compute spans of sequential requests on one worker."""
    starts = [round(SENT_S + (first + place) * each_s, 6) for place in range(count)]  # as exact as the times of pings
    return [[(start, start + each_s, cpu * each_s)] for start in starts]


def by_two(waits: float, server: str = "4_pool", title: str = "In a process pool: every core computes.") -> Trace:
    """Return a trace of two processes that compute in parallel."""
    return traced(server, title, ["1/a", "2/a"] * 4, [one for one in sequential_spans(4) for _ in range(2)], waits)


def one_by_one(waits: float, server: str = "2_loop", title: str = "On the loop itself: it stands still.") -> Trace:
    """Return a trace of one thread that handles requests sequentially."""
    return traced(server, title, ["1/a"] * 8, sequential_spans(), waits)


def in_slices(late_s: float = 0.0, waits: float = 0.0, threads: bool = False) -> Trace:
    """Return a trace of eight requests in slices of 1 ms, on one thread or on eight threads that share the GIL."""
    turns = [
        [(at, at + 0.001, 0.001) for turn in range(50) for at in [SENT_S + (8 * turn + place) * 0.001]]
        for place in range(8)
    ]
    workers = [f"1/{place * threads}" for place in range(8)]
    title = "In threads: they take turns." if threads else "On the loop, in slices: no request is blocked."
    return traced("3_threads" if threads else "5_slices", title, workers, turns, waits, late_s)


def beside_other_work(trace: Trace, share: float, cpus: int = 2) -> Trace:
    """Return the trace as if other work had used this share of the CPU time while its requests ran."""
    lasted_s = max(trace.requests.answered_s) - min(trace.requests.sent_s)
    server_s = sum(cpu_s or 0.0 for ran in trace.requests.ran_s for _, _, cpu_s in ran)
    total_s = cpus * lasted_s
    trace.machine = Machine(total_s=total_s, busy_s=server_s + 0.01 + share * total_s, steal_s=0.0)
    trace.server_cpu_s, trace.bench_cpu_s = server_s, 0.01
    return trace


def of_all_kinds(result: Result) -> Result:
    """Return the result with a trace of each kind and a skipped strategy."""
    result.traces[:] = [
        one_by_one(1.0),
        in_slices(0.2, 0.6, threads=True),
        by_two(0.0),
        in_slices(),
        by_two(1.0, "8_fork"),
    ]
    lacking = "needs Python 3.14 or later, and this is 3.11.7"
    result.left_out[:] = [SkippedServer("7_sub", "In sub-interpreters: each has a GIL.", "3.11.7", lacking)]
    return result


def trace_of(workers: list[str], task: str = "primes") -> Trace:
    requests = TracedRequests(
        [0.1] * len(workers), [0.2] * len(workers), workers, [[(0.11, 0.19, 0.08)]] * len(workers)
    )
    return Trace(
        server="x",
        title="t",
        values={"task": task, "python": "3.11.7"},
        requests=requests,
        pings=pings_of([0.0], [0.001]),
    )
