"""Inject faults caused by clients: disconnects, overload, endless tasks, and incomplete requests."""

import asyncio
import time

from under_siege.drill.clients import LATE, LOST, REFUSED, WRONG
from under_siege.drill.fault import NEVER, NEVER_S
from under_siege.drill.loaded_server import FaultContext, quick_s
from under_siege.host.managed_process import until

AFTER_S = 0.6  # duration of the load after a permanent fault
LEAVERS, STAY_S = 25, 0.15  # number of clients that disconnect, and seconds until they do
FLOOD, FLOOD_LIMIT_S = 800, 30.0  # number of requests, and the timeout of each
SLOW_CONNECTIONS = 50
LEAVE_CPU_S, FLOOD_CPU_S = 0.3, 0.01  # CPU time of a task for each of these faults
CPU_LIMIT_S, IDLE_CHECKS = 30.0, 2  # timeout for the next request, and for IDLE_CHECKS idle checks in a row


async def disconnect_clients(context: FaultContext) -> None:
    """Disconnect clients that wait for responses; measure the wasted CPU time and the latency of the next request."""
    context.set_task_cpu(LEAVE_CPU_S)
    incident = context.incident
    context.began_s = time.monotonic()
    cpu_s, before = context.cpu_s(), context.started_tasks()
    context.mark_fault()
    expected = await context.users.disconnect(LEAVERS, STAY_S)
    sent_s = time.monotonic()
    outcome = await context.users.send(incident.requests, context.began_s, timeout_s=CPU_LIMIT_S)
    next_s = time.monotonic() - sent_s
    deadline_s, idle_checks = time.monotonic() + CPU_LIMIT_S, 0
    while idle_checks < IDLE_CHECKS and time.monotonic() < deadline_s:
        idle_checks = idle_checks + 1 if await context.is_idle() else 0
    is_builtin = context.has_builtin_tasks
    each_s = LEAVE_CPU_S if is_builtin else expected.cpu_s or expected.task_s
    incident.seen |= {
        "next_s": NEVER if outcome else next_s,
        "cpu_s": max(0.0, context.cpu_s() - cpu_s - each_s),
        "asked_cpu_s": LEAVERS * each_s,
        "task_s": each_s if is_builtin else expected.task_s,
        "begun": context.started_tasks() - before - 1,
    }
    incident.ended_s = context.now_s()


async def overload(context: FaultContext) -> None:
    """Send FLOOD requests at once, then single requests until one is quick again."""
    requests, seen = context.incident.requests, context.incident.seen
    context.set_task_cpu(FLOOD_CPU_S)
    context.began_s = time.monotonic()
    context.mark_fault()
    users = context.users
    flood = [users.send(requests, context.began_s, timeout_s=FLOOD_LIMIT_S) for _ in range(FLOOD)]
    outcomes = await asyncio.gather(*flood)
    seen["done_s"] = context.now_s()
    for name, outcome in (("answered", ""), ("refused", REFUSED), ("late", LATE), ("lost", LOST), ("wrong", WRONG)):
        seen[name] = outcomes.count(outcome)
    seen["quick_s"] = await _until_quick(context)
    context.incident.ended_s = context.now_s()


async def _until_quick(context: FaultContext) -> float:
    """Return the time until a single request is quick again, or NEVER if this takes longer than NEVER_S."""
    limit_s, began_s = quick_s(context.incident.idle_answer_s), time.monotonic()
    while time.monotonic() - began_s < NEVER_S:
        sent_s = time.monotonic()
        if not await context.users.send(context.incident.requests, context.began_s, timeout_s=NEVER_S):
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
        await asyncio.sleep(AFTER_S)


async def send_incomplete_requests(context: FaultContext) -> None:
    """Open connections that send an incomplete request and stay open, under load."""
    async with context.under_load():
        context.mark_fault()
        async with context.users.incomplete_requests(SLOW_CONNECTIONS):
            await asyncio.sleep(AFTER_S)
