"""Inject process faults by killing a worker or sending SIGTERM to the server."""

import asyncio
import contextlib
import signal
import time

import psutil

from under_siege import formatting
from under_siege.drill.fault import (
    CONTROL,
    DEAD,
    HURT,
    NEVER_S,
    OK,
    QUICK_RECOVERY_S,
    Fault,
    after,
    count,
    dead_mark,
    ping,
    seconds,
)
from under_siege.drill.fault_context import USERS, FaultContext
from under_siege.drill.incident_metrics import WINDOW_S, Figures, failed_at_s, recovery_s, under_load
from under_siege.drill.users import REFUSED
from under_siege.host.managed_process import GRACE_S, until
from under_siege.host.resource_usage import used_cpu_s
from under_siege.record.record import Incident

CONTROL_S = 0.6  # duration of the control's load after the time at which a fault would be injected
BUSY_S = 0.15  # how long to watch processes to find the busiest one
ONLY_ONE = "it has only one process"
STOP_CPU_S = 0.1  # CPU time of a task that is running when SIGTERM arrives
FEW = 1.0  # maximum number of requests lost after a worker is killed, for the mark OK
SERVER_GRACE_S, IN_TIME_S = 5.0, 1.0  # graceful-shutdown period of a server, and the extra time allowed for its exit


async def do_nothing(context: FaultContext) -> None:
    """Run the load without a fault, as a control."""
    async with context.under_load():
        context.mark_fault()
        await asyncio.sleep(CONTROL_S)


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
    server, requests, seen = context.server, context.incident.requests, context.incident.seen
    before = context.started_tasks()
    context.began_s = time.monotonic()
    asking = [
        asyncio.create_task(context.users.send(requests, context.began_s, timeout_s=3 * GRACE_S)) for _ in range(USERS)
    ]
    await until(lambda: context.started_tasks() > before, 1.0)
    await asyncio.sleep(STOP_CPU_S / 4)
    fault_at_s = context.mark_fault()
    context.signal(signal.SIGTERM)
    await until(lambda: not server.alive(), 3 * GRACE_S)
    outcomes = await asyncio.gather(*asking)
    context.incident.ended_s = context.now_s()
    answered, begun = outcomes.count(""), context.started_tasks() - before if context.has_builtin_tasks else USERS
    seen |= {"asked": len(outcomes), "answered": answered, "begun": begun, "refused": outcomes.count(REFUSED)}
    seen |= {"begun_lost": max(0, begun - answered), "exit_s": context.now_s() - fault_at_s}
    if (status := server.exit_status()) is not None:
        seen["exit"] = status


async def stop_long(context: FaultContext) -> None:
    """Send SIGTERM while endless tasks run."""
    for number in range(USERS):
        context.make_next_task_endless(str(number))
    await stop(context)


def _measure_worker(incident: Incident) -> Figures:
    at_s = incident.fault_at_s or 0.0
    return under_load(incident) | {
        "lost": float(sum(ended_s >= at_s for ended_s in failed_at_s(incident))),
        "whole_s": recovery_s(incident, incident.ended_s - WINDOW_S),
    }


def _mark_worker(figures: Figures) -> str:
    if figures["whole_s"] is None:
        return dead_mark(figures.get("ping_p99_s"))
    return OK if figures["whole_s"] <= QUICK_RECOVERY_S and (figures["lost"] or 0) <= FEW else HURT


def _stop_texts(figures: Figures) -> tuple[str, str]:
    status = figures.get("exit")
    ended = "never" if status is None else f"{status:.0f} in {seconds(figures['exit_s'])}"
    return f"{count(figures['begun_lost'])} of {count(figures['begun'])}", ended


def _mark_stop(figures: Figures) -> str:
    if figures.get("exit") is None:
        return DEAD
    return OK if not figures["begun_lost"] and figures.get("exit") == 0 else HURT


def _mark_stop_long(figures: Figures) -> str:
    """Return OK if the server exits in time with status 0; the tasks that it runs never end, so all are lost."""
    if figures.get("exit") is None:
        return DEAD
    in_time = (figures["exit_s"] or 0.0) <= SERVER_GRACE_S + IN_TIME_S
    return OK if in_time and figures.get("exit") == 0 else HURT


PROCESS_FAULTS = (
    Fault(
        CONTROL,
        "no fault",
        "no fault",
        ("trans/s", "ping p99"),
        do_nothing,
        lambda figures: (formatting.rate(figures["before_per_s"] or 0.0), ping(figures)),
        measure=under_load,
        is_once=True,
        is_remote=True,
    ),
    Fault(
        "worker",
        "SIGKILL to one worker process",
        "worker killed",
        ("lost", "recovery time"),
        kill_a_worker,
        lambda figures: (count(figures["lost"]), after(figures["whole_s"])),
        _mark_worker,
        _measure_worker,
    ),
    Fault(
        "stop",
        "SIGTERM while the server runs tasks that are shorter than the graceful-shutdown period",
        "SIGTERM",
        ("in-flight lost", "exit"),
        stop,
        _stop_texts,
        _mark_stop,
        ends_server=True,
    ),
    Fault(
        "stop_long",
        "SIGTERM while the server runs tasks that take longer than the graceful-shutdown period",
        "SIGTERM, long tasks",
        ("in-flight lost", "exit"),
        stop_long,
        _stop_texts,
        _mark_stop_long,
        option="stop",
        is_once=True,
        ends_server=True,
        needs_builtin_tasks=True,
    ),
)
