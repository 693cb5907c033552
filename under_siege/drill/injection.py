"""Inject faults: kill processes, disconnect clients, flood the server, and poll for accepted jobs afterwards."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Coroutine, Iterable
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import psutil

from under_siege.drill.loaded_server import IDLE_CPUS, USERS, FaultContext, quick_s
from under_siege.host.managed_process import GRACE_S, until
from under_siege.host.resource_usage import used_cpu_s
from under_siege.record.record import CaseFailedError
from under_siege.record.requests import CORRECT, LATE, LOAD, LOST, REFUSED, WRONG

NEVER = -1.0  # represents an infinite time in `Incident.seen`, because JSON has no infinity
NEVER_S = 5.0  # a server that takes longer than this to recover counts as never recovered
PAUSE_S = 2.0
BUSY_S = 0.15  # how long to watch processes to find the busiest one
ONLY_ONE = "it has only one process"
STOP_CPU_S = 0.1  # CPU time of a task that is running when SIGTERM arrives


class Need(StrEnum):
    """What a fault needs. The value says why the fault does not apply to a server that lacks it."""

    PROCESS = "the bench did not start it"
    TASKS = "it does not run the built-in tasks"
    JOBS = "it accepts no jobs"
    STREAM = "its responses are not streams"
    WHOLE = "its responses are streams"
    CPU_OF_STREAMS = "its streams use too little CPU time to tell whether they go on"


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
    """Kill the worker process that uses the most CPU time, and return whether there is one."""
    victim = await asyncio.to_thread(_busiest, context.child_processes())
    if victim is None:
        context.incident.without = ONLY_ONE
        return False
    context.mark_fault()
    with contextlib.suppress(psutil.Error):
        victim.kill()
    return True


async def pause_a_worker(context: FaultContext) -> None:
    """Stop the busiest process for PAUSE_S with SIGSTOP, and wait until the server has recovered."""
    async with context.under_load():
        victim = await asyncio.to_thread(_busiest, context.child_processes() or context.main_process())
        if victim is None:
            raise CaseFailedError("died", "the server ended before the fault")
        context.mark_fault()
        with contextlib.suppress(psutil.Error):
            try:
                victim.suspend()
                await asyncio.sleep(PAUSE_S)
            finally:
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
    """Send one request per user, then SIGTERM shortly after the first task has started."""
    context.set_task_cpu(STOP_CPU_S)
    server, seen, before = context.server, context.incident.seen, context.started_tasks()
    async with context.sending_at_once(USERS, 3 * GRACE_S) as outcomes_of_all:
        await until(lambda: context.started_tasks() > before, 1.0)
        await asyncio.sleep(STOP_CPU_S / 4)
        fault_at_s = context.mark_fault()
        context.signal(signal.SIGTERM)
        await until(lambda: not server.alive(), 3 * GRACE_S)
        outcomes = await outcomes_of_all()
    context.incident.ended_s = context.now_s()
    answered, begun = outcomes.count(CORRECT), context.started_tasks() - before if context.has_builtin_tasks else USERS
    seen |= {"asked": len(outcomes), "answered": answered, "begun": begun, "refused": outcomes.count(REFUSED)}
    seen |= {"begun_lost": max(0, begun - answered), "exit_s": context.now_s() - fault_at_s}
    if (status := server.exit_status()) is not None:
        seen["exit"] = status


async def stop_long(context: FaultContext) -> None:
    """Send SIGTERM while endless tasks run."""
    for number in range(USERS):
        context.make_next_task_endless(str(number))
    await stop(context)


AFTER_FAULT_S = 0.6  # duration of the load after a permanent fault
LEAVERS, STAY_S = 25, 0.15  # number of clients that disconnect, and seconds until they do
FLOOD, FLOOD_LIMIT_S = 800, 30.0  # number of requests, and the timeout of each
SLOW_CONNECTIONS = SILENT_CONNECTIONS = 50
HALF_A_REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "
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
    if not context.has_builtin_tasks and await context.users.gets_a_stream(CPU_LIMIT_S):
        incident.without = Need.WHOLE
        return
    context.began_s = time.monotonic()
    cpu_s, before = context.cpu_s(), context.started_tasks()
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
        "begun": context.started_tasks() - before - 1,
    }
    incident.ended_s = context.now_s()


async def leave_streams(context: FaultContext) -> None:
    """Disconnect clients in the middle of their streams; measure how long the server continues, and its memory."""
    incident, users = context.incident, context.users
    if context.has_builtin_tasks or not await users.gets_a_stream(CPU_LIMIT_S):
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
    deadline_s, last_busy_s, idle_checks = time.monotonic() + CPU_LIMIT_S, context.now_s(), 0
    while time.monotonic() < deadline_s:
        idle_checks = idle_checks + 1 if await context.is_idle(cpus) else 0
        if idle_checks == IDLE_CHECKS:
            return last_busy_s
        if not idle_checks:
            last_busy_s = context.now_s()
    return None


async def overload(context: FaultContext) -> None:
    """Send FLOOD requests at once, then single requests until one is quick again."""
    seen = context.incident.seen
    context.set_task_cpu(FLOOD_CPU_S)
    async with context.sending_at_once(FLOOD, FLOOD_LIMIT_S) as outcomes_of_all:
        context.mark_fault()
        outcomes = await outcomes_of_all()
    seen["done_s"] = context.now_s()
    for name, outcome in (
        ("answered", CORRECT),
        ("refused", REFUSED),
        ("late", LATE),
        ("lost", LOST),
        ("wrong", WRONG),
    ):
        seen[name] = outcomes.count(outcome)
    seen["quick_s"] = await _until_quick(context)
    context.incident.ended_s = context.now_s()


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
        context.make_next_task_endless("one")
        await until(lambda: not context.has_pending_endless_task(), 1.0)
        context.mark_fault()
        await asyncio.sleep(AFTER_FAULT_S)


async def send_incomplete_requests(context: FaultContext) -> None:
    """Open connections that send an incomplete request and stay open, under load."""
    async with context.under_load():
        context.mark_fault()
        async with context.users.incomplete_requests(SLOW_CONNECTIONS, HALF_A_REQUEST):
            await asyncio.sleep(AFTER_FAULT_S)


async def open_silent_connections(context: FaultContext) -> None:
    """Open connections that send nothing, as browsers and load balancers do in advance, for up to SILENT_S."""
    async with context.under_load():
        context.mark_fault()
        async with context.users.incomplete_requests(SILENT_CONNECTIONS, b""):
            await asyncio.sleep(AFTER_FAULT_S)
            await context.recovers_within(SILENT_S)


JOBS, AT_ONCE = 40, 8
JOB_CPU_S = 0.05
# Timeouts for the next result and for all results. They are long, because Celery reconnects after 2, 4, 6, … s.
NEXT_RESULT_LIMIT_S, ALL_RESULTS_LIMIT_S = 20.0, 40.0
GONE_S = 2.0  # the remaining jobs count as lost once the server has answered 404 for all of them for this long
LOOK_S = 0.1  # pause between two polls of a job; Retry-After headers are ignored
POST_LIMIT_S, NEW_LIMIT_S, DEATH_LIMIT_S = 5.0, 5.0, 5.0
_NOT_SUPPORTED = (404, 405, 501)
T = TypeVar("T")
_ANSWERED, _FAILED, _UNKNOWN, _LATER = "answered", "failed", "unknown", "later"


async def kill_a_worker_with_jobs(context: FaultContext) -> None:
    """Post jobs, send SIGKILL to the busiest worker process, and poll for the results."""
    if (jobs := await _post_all(context)) and await kill_busiest(context):
        await _poll_all(context, jobs)


async def kill_the_server_with_jobs(context: FaultContext) -> None:
    """Post jobs, kill the server, restart it with the same command, and poll for the results."""
    if not (jobs := await _post_all(context)):
        return
    context.mark_fault()
    context.signal(signal.SIGKILL)
    await until(lambda: not context.server.alive(), DEATH_LIMIT_S)
    await context.server.start_again()
    await context.server.ready(context.session)
    await _poll_all(context, jobs)


async def _at_once(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines, at most AT_ONCE of them concurrently, and return their results in the order of `work`."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def limited(coroutine: Coroutine[Any, Any, T]) -> T:
        async with limit:
            return await coroutine

    return list(await asyncio.gather(*map(limited, work)))


async def _post_all(context: FaultContext) -> list[str]:
    """Post all jobs, and return the URLs of the accepted jobs."""
    context.set_task_cpu(JOB_CPU_S)
    context.began_s = time.monotonic()
    first = await _post(context)
    if context.incident.without:
        return []
    if first is None:
        raise CaseFailedError("no_job", "POST /jobs failed before the fault: expected 202 with a Location header")
    others = await _at_once(_post(context) for _ in range(JOBS - 1))
    jobs = [first, *filter(None, others)]
    context.incident.seen["accepted"] = len(jobs)
    return jobs


async def _post(context: FaultContext) -> str | None:
    """Post a job, and return its URL, or None if it was not accepted."""
    url = urljoin(context.server.url, "/jobs")
    answer = await context.users.ask(url, POST_LIMIT_S, "POST")
    if isinstance(answer, str):
        return None
    if answer.status in _NOT_SUPPORTED:
        context.incident.without = Need.JOBS
    job = urljoin(url, answer.headers.get("location", "nowhere:"))
    is_here = urlsplit(job)[:2] == urlsplit(url)[:2]  # polls must not go to another server
    return job if answer.status == 202 and is_here else None


async def _poll_all(context: FaultContext, jobs: list[str]) -> None:
    """Poll until every job has a result or no more results can be expected, then post a new job."""
    at_s, requests, seen = context.incident.fault_at_s, context.incident.requests, context.incident.seen
    assert at_s is not None
    states, last_s = dict.fromkeys(jobs, _LATER), context.now_s()
    unknown_since_s = time.monotonic()
    while waiting := [job for job in jobs if states[job] in (_LATER, _UNKNOWN)]:
        if context.now_s() > min(last_s + NEXT_RESULT_LIMIT_S, at_s + ALL_RESULTS_LIMIT_S):
            break
        answers = await _at_once(_poll(context, job) for job in waiting)
        states.update(zip(waiting, answers, strict=True))
        for answer in answers:
            if answer in (_ANSWERED, _FAILED):
                last_s = context.now_s()
                outcome = CORRECT if answer == _ANSWERED else WRONG
                requests.add(LOAD, sent_s=0.0, ended_s=last_s, outcome=outcome)
        if _LATER in answers:
            unknown_since_s = time.monotonic()
        elif time.monotonic() - unknown_since_s >= GONE_S:
            break
        await asyncio.sleep(LOOK_S)
    outcomes = list(states.values())
    seen["answered"], seen["failed"] = outcomes.count(_ANSWERED), outcomes.count(_FAILED)
    seen["lost"] = len(jobs) - seen["answered"]
    seen["last_s"] = max(0.0, max(requests.ended_s) - at_s) if requests.ended_s else NEVER
    context.incident.ended_s = context.now_s()
    seen["takes_new"] = float(await _takes_new(context))


async def _poll(context: FaultContext, job: str) -> str:
    answer = await context.users.ask(job, POST_LIMIT_S)
    if isinstance(answer, str):
        return _FAILED if answer == WRONG else _LATER
    if context.users.expected.fits(answer.status, answer.body):
        return _ANSWERED
    if answer.status in (202, 503):
        return _LATER
    return _UNKNOWN if answer.status == 404 else _FAILED


async def _takes_new(context: FaultContext) -> bool:
    """Post one more job, and return whether its result arrives in time."""
    deadline_s, job = time.monotonic() + NEW_LIMIT_S, None
    while time.monotonic() < deadline_s:
        job = job or await _post(context)
        if job is not None and await _poll(context, job) == _ANSWERED:
            return True
        await asyncio.sleep(LOOK_S)
    return False
