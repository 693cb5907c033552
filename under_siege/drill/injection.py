"""Inject faults: kill and pause processes, disconnect clients, and flood the server."""

import asyncio
import contextlib
import resource
import signal
import time
from collections.abc import Callable, Sequence
from enum import StrEnum

import psutil

from under_siege.drill.incident_metrics import answered_at_s
from under_siege.drill.loaded_server import IDLE_CPUS, USERS, FaultContext, quick_s
from under_siege.host.managed_process import GRACE_S, until
from under_siege.host.resource_usage import used_cpu_s
from under_siege.load.background import cancel
from under_siege.record.record import CaseFailedError
from under_siege.record.requests import CORRECT, LATE, LIMITED, LOST, REFUSED, WRONG, Outcome

NEVER = -1.0  # represents an infinite time in `Incident.seen`, because JSON has no infinity
NEVER_S = 5.0  # a server that takes longer than this to recover counts as never recovered
PAUSE_S = 2.0
BUSY_S = 0.15  # how long to watch processes to find the busiest one
ONLY_ONE = "it has only one process"
FOREIGN = "its processes belong to another user"
ELSEWHERE = "its processes are on another machine, or are not visible here"
NO_RELOAD = "SIGHUP would not reload it; for another way, set reload for this server in a suite"
UNDECIDED = (FOREIGN, ELSEWHERE)  # reasons why the drill could not inject a fault that may well harm the server
STOP_CPU_S = 0.1  # CPU time of a task that is running when SIGTERM arrives
LONGEST_START_S = 1.0  # after this time, a request of an application counts as begun, however long it takes
STOP_LIMIT_S = 35.0  # timeout for the exit after SIGTERM; gunicorn and Kubernetes wait 30 s by default
LAST_BYTES_S = 1.0  # timeout for the end of the connections of a server that has ended
BEGIN_LIMIT_S = 5.0  # timeout for the start of a task that the fault needs
SPARE_FILES = 100  # open files of the bench, besides the connections of a fault


class Need(StrEnum):
    """What a fault needs. The value says why the fault does not apply to a server that lacks it."""

    PROCESS = "the bench did not start it"
    TASKS = "it does not run the built-in tasks"
    JOBS = "it accepts no jobs"
    STREAM = "its responses are not streams"
    WHOLE = "its responses are streams"
    LARGE = "its responses fit into the buffers of the system"
    CPU_OF_STREAMS = "its streams use too little CPU time to tell whether they go on"


def was_sent(context: FaultContext, send: Callable[[], None]) -> bool:
    """Send a signal at the time of the fault; return False, and say why, if the system does not permit it.

    Raises:
        CaseFailedError: the process has ended, so that nothing would show the effect of the fault.
    """
    context.mark_fault()
    try:
        send()
    except psutil.AccessDenied:
        context.incident.without, context.incident.fault_at_s = FOREIGN, None
        return False
    except psutil.NoSuchProcess:
        raise CaseFailedError("no_fault", "the process ended by itself before it got the signal") from None
    return True


async def do_nothing(context: FaultContext) -> None:
    """Run the load without a fault, as a control."""
    async with context.under_load():
        context.mark_fault()
        await asyncio.sleep(AFTER_FAULT_S)


async def kill_a_worker(context: FaultContext) -> None:
    """Send SIGKILL to the busiest worker process, and wait until the server has recovered."""
    if not context.child_processes():
        context.incident.without = ONLY_ONE
        return
    async with context.under_load():
        if await kill_busiest(context) and not await context.recovers_within(NEVER_S):
            context.incident.left_whole = False


async def kill_busiest(context: FaultContext) -> bool:
    """Kill the worker process that uses the most CPU time, and return whether one was killed."""
    victim = await asyncio.to_thread(_busiest, context.child_processes())
    if victim is None:
        context.incident.without = ONLY_ONE
        return False
    return was_sent(context, victim.kill)


async def pause_a_worker(context: FaultContext) -> None:
    """Stop the busiest process for PAUSE_S with SIGSTOP, and wait until the server has recovered."""
    async with context.under_load():
        victim = await asyncio.to_thread(_busiest, context.child_processes() or context.main_process())
        if victim is None:
            raise CaseFailedError("died", "the server ended before the fault")
        if not was_sent(context, victim.suspend):
            return
        try:
            await asyncio.sleep(PAUSE_S)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):  # its parent has replaced it meanwhile
                victim.resume()
        if not await context.recovers_within(PAUSE_S + NEVER_S):
            context.incident.left_whole = False


def _busiest(child_processes: list[psutil.Process]) -> psutil.Process | None:
    """Return the process that uses the most CPU time now or, if all are idle, has used the most so far."""
    before = {process: _cpu_s(process) for process in child_processes}
    time.sleep(BUSY_S)
    used = {process: _cpu_s(process) - cpu_s for process, cpu_s in before.items()}
    return max(used, key=lambda process: (used[process], before[process]), default=None)


def _cpu_s(process: psutil.Process) -> float:
    try:
        return used_cpu_s(process)
    except psutil.Error:
        return 0.0


async def stop(context: FaultContext) -> None:
    """Send one request per user, then SIGTERM once the first task has started; the clients wait for the server."""
    context.set_task_cpu(STOP_CPU_S)
    if await context.gets_a_stream(CPU_LIMIT_S):
        context.incident.without = Need.WHOLE
        return
    before = context.tasks.started()
    async with context.sending_at_once(USERS, STOP_LIMIT_S) as outcomes_of_all:
        if context.has_builtin_tasks:
            await _must_begin(lambda: context.tasks.started() > before, "no task has started")
        idle_answer_s = 0.0 if context.has_builtin_tasks else context.incident.idle_answer_s or 0.0
        await asyncio.sleep(min(LONGEST_START_S, max(STOP_CPU_S, idle_answer_s) / 4))
        if not await _has_stopped(context):
            return
        outcomes = await outcomes_of_all()
    counts = counts_of(outcomes)
    begun = context.tasks.started() - before if context.has_builtin_tasks else USERS - counts["refused"]
    _note_stop(context, counts, begun)


async def stop_streams(context: FaultContext) -> None:
    """Send SIGTERM while each user reads a stream; the clients read until the server ends the stream."""
    incident, users = context.incident, context.users
    if not await context.gets_a_stream(CPU_LIMIT_S):
        incident.without = Need.STREAM
        return
    context.began_s = time.monotonic()
    count = 0

    def begins() -> None:
        nonlocal count
        count += 1

    clients = [asyncio.create_task(users.read_to_end(incident.requests, context.began_s, begins)) for _ in range(USERS)]
    try:
        await until(lambda: count == USERS, BEGIN_LIMIT_S)
        if not count:
            raise CaseFailedError("no_fault", f"no stream has begun within {BEGIN_LIMIT_S:g} s")
        if not await _has_stopped(context):
            return
        done, _ = await asyncio.wait(clients, timeout=LAST_BYTES_S)
    finally:
        await cancel(clients)
    # Streams that end by themselves in time are whole answers, which a graceful shutdown completes.
    incident.seen["ends_in_time"] = float(users.ends_streams and (incident.idle_answer_s or 0.0) < GRACE_S)
    _note_stop(context, counts_of([client.result() for client in done]), count)


async def _has_stopped(context: FaultContext) -> bool:
    """Send SIGTERM, and note when and how the server exits; return False if the system does not permit the signal."""
    server, seen = context.server, context.incident.seen
    if not was_sent(context, lambda: context.signal(signal.SIGTERM)):
        return False
    await until(lambda: not server.alive(), STOP_LIMIT_S)
    seen["exit_s"] = context.now_s() - (context.incident.fault_at_s or 0.0)
    if server.started and (status := server.started.poll()) is not None:
        seen["exit"] = status
    return True


def _note_stop(context: FaultContext, counts: dict[str, int], begun: int) -> None:
    context.incident.ended_s = context.now_s()
    answered = counts["answered"]
    context.incident.seen |= {"asked": USERS, "answered": answered, "begun": begun, "refused": counts["refused"]}
    context.incident.seen["begun_lost"] = max(0, begun - answered)


async def _must_begin(has_begun: Callable[[], bool], otherwise: str) -> None:
    """Wait for the task that a fault needs; raise CaseFailedError if the server does not run it.

    The server may run its tasks elsewhere, or as a user who can't read the drill's directory.
    """
    if not await until(has_begun, BEGIN_LIMIT_S):
        why = f"{otherwise} within {BEGIN_LIMIT_S:g} s; run the tasks in processes of the server and of this user"
        raise CaseFailedError("no_fault", why)


async def stop_long(context: FaultContext) -> None:
    """Send SIGTERM while endless tasks run."""
    for number in range(USERS):
        context.tasks.make_next_endless(str(number))
    await stop(context)


AFTER_FAULT_S = 0.6  # duration of the load after a permanent fault
LEAVERS, STAY_S = 25, 0.15  # number of clients that disconnect, and seconds until they do
FLOOD, FLOOD_LIMIT_S = 800, 30.0  # number of requests, and the timeout of each
SLOW_CONNECTIONS = SILENT_CONNECTIONS = 50
HALF_A_REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "
READERS, READ_PER_S, READ_S = 10, 1000, 3.0  # slow readers, the bytes that each reads per second, and for how long
LONGEST_READ_S = 15.0  # timeout for one response per user before the fault, which large responses need for a rate
LEAST_READ_BYTES = (
    1_000_000  # smaller responses fit into the system's buffers, so that no server notices who reads them
)
SILENT_S = 10.0  # longest duration of silent connections; they end sooner if the rate is as before the fault
LEAVE_CPU_S, FLOOD_CPU_S = 0.3, 0.01  # CPU time of a task for each of these faults
CPU_LIMIT_S, IDLE_CHECKS = 30.0, 2  # timeout for the next request, and for IDLE_CHECKS idle checks in a row
STREAMS = 8  # number of clients that disconnect in the middle of a stream; few enough for eight threads
# After clients left their streams, a server is idle if it uses fewer CPUs than this share of those that one stream uses
# alone, or than FEWEST_CPUS. The usual limit is too high for a stream that waits for most of its time.
LEAST_STREAM_CPU_S = 0.03  # CPU time of a whole stream; with less, nothing shows whether its rest is computed
LEFT_OF_A_STREAM, FEWEST_CPUS = 0.5, 0.01
LEAVE_AT, LATEST_LEAVE_S = 0.5, 5.0  # clients leave after this share of the time that one stream takes alone


async def disconnect_clients(context: FaultContext) -> None:
    """Disconnect clients that wait for responses; measure the wasted CPU time and the latency of the next request."""
    context.set_task_cpu(LEAVE_CPU_S)
    incident = context.incident
    if await context.gets_a_stream(CPU_LIMIT_S):
        incident.without = Need.WHOLE
        return
    context.began_s = time.monotonic()
    cpu_s, before = context.cpu_s(), context.tasks.started()
    context.mark_fault()
    expected = await context.users.disconnect(LEAVERS, STAY_S)
    sent_s = time.monotonic()
    outcome = await context.users.send(incident.requests, context.began_s, timeout_s=CPU_LIMIT_S)
    next_s = time.monotonic() - sent_s
    await _last_busy_s(context)
    is_builtin = context.has_builtin_tasks
    each_s = LEAVE_CPU_S if is_builtin else expected.cpu_s or expected.task_s
    incident.seen |= {
        "next_s": next_s if outcome == CORRECT else NEVER,
        "cpu_s": max(0.0, context.cpu_s() - cpu_s - each_s),
        "asked_cpu_s": LEAVERS * each_s,
        "task_s": each_s if is_builtin else expected.task_s,
        "begun": context.tasks.started() - before - 1,
    }
    incident.ended_s = context.now_s()


async def leave_streams(context: FaultContext) -> None:
    """Disconnect clients in the middle of their streams; measure how long the server continues, and its memory."""
    incident, users = context.incident, context.users
    if not await context.gets_a_stream(CPU_LIMIT_S):
        incident.without = Need.STREAM
        return
    context.began_s = time.monotonic()
    before_s = context.cpu_s()
    if (outcome := await users.send(incident.requests, context.began_s, timeout_s=CPU_LIMIT_S)) != CORRECT:
        raise CaseFailedError("no_stream", f"a single stream did not end correctly within {CPU_LIMIT_S:g} s: {outcome}")
    alone_s, alone_cpu_s = context.now_s(), context.cpu_s() - before_s
    if alone_cpu_s < LEAST_STREAM_CPU_S:
        incident.without = Need.CPU_OF_STREAMS
        return
    memory_bytes, before_s = context.memory_bytes(), context.cpu_s()
    await users.disconnect(STREAMS, min(LEAVE_AT * alone_s, LATEST_LEAVE_S))
    left_s, left_cpu_s = context.mark_fault(), context.cpu_s()
    one_stream_cpus = alone_cpu_s / alone_s
    last_busy_s = await _last_busy_s(context, max(FEWEST_CPUS, LEFT_OF_A_STREAM * one_stream_cpus))
    incident.seen |= {
        "on_s": NEVER if last_busy_s is None else max(0.0, last_busy_s - left_s),
        "cpu_s": context.cpu_s() - left_cpu_s,
        "rest_cpu_s": max(0.0, STREAMS * alone_cpu_s - (left_cpu_s - before_s)),
        "memory_bytes": context.memory_bytes() - memory_bytes,
    }
    incident.ended_s = context.now_s()


async def _last_busy_s(context: FaultContext, cpus: float = IDLE_CPUS) -> float | None:
    """Wait until the server is idle; return when it was last busy, or None if it is busy for CPU_LIMIT_S."""
    deadline_s = time.monotonic() + CPU_LIMIT_S
    last_busy_s = context.now_s()
    idle_checks = 0
    while time.monotonic() < deadline_s:
        idle_checks = idle_checks + 1 if await context.is_idle(cpus) else 0
        if idle_checks == IDLE_CHECKS:
            return last_busy_s
        if not idle_checks:
            last_busy_s = context.now_s()
    return None


async def overload(context: FaultContext) -> None:
    """Send FLOOD requests at once, then single requests until one is quick again."""
    _must_open(FLOOD)
    seen = context.incident.seen
    context.set_task_cpu(FLOOD_CPU_S)
    async with context.sending_at_once(FLOOD, FLOOD_LIMIT_S) as outcomes_of_all:
        context.mark_fault()
        outcomes = await outcomes_of_all()
    seen["done_s"] = context.now_s()
    seen |= counts_of(outcomes)
    seen["quick_s"] = await _until_quick(context)
    context.incident.ended_s = context.now_s()


def counts_of(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Return how many requests had each outcome; status 429 also asks a client to come back, as 503 does."""
    refused = outcomes.count(REFUSED) + outcomes.count(LIMITED)
    return {"answered": outcomes.count(CORRECT), "refused": refused} | {
        name: outcomes.count(name) for name in (LATE, LOST, WRONG)
    }


def _must_open(connections: int) -> None:
    """Raise CaseFailedError if the bench can't open that many connections: the server would be blamed for the rest."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and needed > soft:
        why = (
            f"{connections} connections need {needed} open files, but the limit is {soft}; raise it: ulimit -n {needed}"
        )
        raise CaseFailedError("open_files", why)


async def _until_quick(context: FaultContext) -> float:
    """Return the time until a single request is quick again, or NEVER if this takes longer than NEVER_S."""
    limit_s, began_s = quick_s(context.incident.idle_answer_s), time.monotonic()
    while time.monotonic() - began_s < NEVER_S:
        sent_s = time.monotonic()
        if await context.users.send(context.incident.requests, context.began_s, timeout_s=NEVER_S) == CORRECT:
            if time.monotonic() - sent_s <= limit_s:
                return sent_s - began_s
        else:
            await asyncio.sleep(0.02)  # don't flood a server that refuses requests
    return NEVER


async def start_an_endless_task(context: FaultContext) -> None:
    """Start one endless task under load."""
    async with context.under_load():
        context.tasks.make_next_endless("one")
        await _must_begin(lambda: not context.tasks.has_pending_endless(), "no task has become endless")
        context.mark_fault()
        await asyncio.sleep(AFTER_FAULT_S)


async def send_incomplete_requests(context: FaultContext) -> None:
    """Open connections that send an incomplete request and stay open, under load."""
    _must_open(SLOW_CONNECTIONS)
    async with context.under_load():
        context.mark_fault()
        async with context.users.incomplete_requests(SLOW_CONNECTIONS, HALF_A_REQUEST):
            await asyncio.sleep(AFTER_FAULT_S)


async def open_silent_connections(context: FaultContext) -> None:
    """Open connections that send nothing, as browsers and load balancers do in advance, for up to SILENT_S."""
    _must_open(SILENT_CONNECTIONS)
    async with context.under_load():
        context.mark_fault()
        async with context.users.incomplete_requests(SILENT_CONNECTIONS, b""):
            await asyncio.sleep(AFTER_FAULT_S)
            await context.recovers_within(SILENT_S)


async def read_slowly(context: FaultContext) -> None:
    """Let some clients read at READ_PER_S under load; measure the memory, the rate of the others, and pings."""
    incident, seen = context.incident, context.incident.seen
    is_stream = await context.gets_a_stream(CPU_LIMIT_S)
    if not is_stream and context.users.largest_bytes < LEAST_READ_BYTES:
        incident.without = Need.LARGE
        return
    async with context.under_load(), context.watching_memory():
        await until(lambda: len(answered_at_s(incident)) >= USERS, LONGEST_READ_S)
        seen["settled_s"] = context.now_s()  # all users are served from here on
        await asyncio.sleep(READ_S)
        await until(lambda: len(answered_at_s(incident)) >= 2 * USERS, LONGEST_READ_S)
        seen["memory_before_bytes"] = seen["memory_bytes"]
        before_s = context.mark_fault() - seen["settled_s"]
        async with context.users.slow_readers(READERS, READ_PER_S):
            await asyncio.sleep(before_s)  # the rates before and after are counted equally long
