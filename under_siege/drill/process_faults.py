"""Inject process faults by killing a worker or sending SIGTERM to the server."""

import asyncio
import contextlib
import signal
import time

import psutil

from under_siege.drill.clients import REFUSED
from under_siege.drill.fault import NEVER_S
from under_siege.drill.loaded_server import USERS, FaultContext
from under_siege.host.managed_process import GRACE_S, until
from under_siege.host.resource_usage import used_cpu_s

CONTROL_S = 0.6  # duration of the control's load after the time at which a fault would be injected
BUSY_S = 0.15  # how long to watch processes to find the busiest one
ONLY_ONE = "it has only one process"
STOP_CPU_S = 0.1  # CPU time of a task that is running when SIGTERM arrives


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
