"""Inject faults caused by clients: disconnects, overload, endless tasks, and incomplete or invalid requests."""

import asyncio
import time

from under_siege.drill.fault import (
    DEAD,
    HURT,
    NEVER,
    NEVER_S,
    OK,
    PING_FINE_S,
    QUICK_RECOVERY_S,
    Fault,
    count,
    mark_of_rate,
    ping,
    seconds,
    share,
)
from under_siege.drill.fault_context import FaultContext, quick_s
from under_siege.drill.incident_metrics import Figures, ping_p99_s, rate_between, under_load
from under_siege.drill.users import (
    LATE,
    LOST,
    REFUSED,
    WRONG,
    incomplete_requests,
    send_and_disconnect,
)
from under_siege.host.managed_process import until
from under_siege.record.record import Incident

AFTER_S = 0.6  # duration of the load after a permanent fault
LEAVERS, STAY_S = 25, 0.15  # number of clients that disconnect, and seconds until they do
FLOOD, FLOOD_LIMIT_S = 800, 30.0  # number of requests, and the timeout of each
SLOW_CONNECTIONS = 50
LEAVE_CPU_S, FLOOD_CPU_S = 0.3, 0.01  # CPU time of a task for each of these faults
CPU_LIMIT_S, IDLE_CHECKS = 30.0, 2  # timeout for the next request, and for IDLE_CHECKS idle checks in a row
MOST_WASTED_CPU = 0.5  # tasks that use at most this share of their full CPU time count as cancelled
TASKS_LONGER = 2.0  # maximum number of other tasks that the next request is allowed to wait for


async def disconnect_clients(context: FaultContext) -> None:
    """Disconnect clients that wait for responses; measure the wasted CPU time and the latency of the next request."""
    context.set_task_cpu(LEAVE_CPU_S)
    incident, expected, is_builtin = context.incident, context.users.expected, context.has_builtin_tasks
    url, sent = expected.for_request(context.server.load_url)
    context.began_s = time.monotonic()
    cpu_s, before = context.cpu_s(), context.started_tasks()
    context.mark_fault()
    path = url.removeprefix(context.server.url)
    await send_and_disconnect(*context.address, path, sent.request, LEAVERS, STAY_S)
    sent_s = time.monotonic()
    outcome = await context.users.send(incident.requests, context.began_s, timeout_s=CPU_LIMIT_S)
    next_s = time.monotonic() - sent_s
    deadline_s, idle_checks = time.monotonic() + CPU_LIMIT_S, 0
    while idle_checks < IDLE_CHECKS and time.monotonic() < deadline_s:
        idle_checks = idle_checks + 1 if await context.is_idle() else 0
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
    """Start one endless task, and measure the remaining rate."""
    async with context.under_load():
        context.mark_fault()
        before = context.rate_before()
        context.make_next_task_endless("one")
        await until(lambda: not context.has_pending_endless_task(), 1.0)
        from_s = context.now_s()
        await asyncio.sleep(AFTER_S)
        left = rate_between(context.incident, from_s, context.now_s()) / before if before else 0.0
        context.incident.seen |= {"left": left, "from_s": from_s}


async def send_incomplete_requests(context: FaultContext) -> None:
    """Open connections that send an incomplete request and stay open, and measure the remaining rate."""
    async with context.under_load():
        context.mark_fault()
        before = context.rate_before()
        async with incomplete_requests(*context.address, SLOW_CONNECTIONS):
            from_s = context.now_s()
            await asyncio.sleep(AFTER_S)
            left = rate_between(context.incident, from_s, context.now_s()) / before if before else 0.0
            context.incident.seen |= {"left": left, "from_s": from_s}


def _leave_texts(figures: Figures) -> tuple[str, str]:
    requested_s, cpu_s = figures["asked_cpu_s"] or 0.0, figures["cpu_s"] or 0.0
    of_requested = f" ({share(cpu_s / requested_s)})" if requested_s else ""
    return f"{seconds(cpu_s)}{of_requested}", seconds(figures["next_s"])


def _mark_leave(figures: Figures) -> str:
    next_s, task_s, requested_s = figures["next_s"], figures["task_s"] or 0.0, figures["asked_cpu_s"] or 0.0
    if next_s is None:
        return DEAD
    are_cancelled = (figures["cpu_s"] or 0.0) <= MOST_WASTED_CPU * requested_s
    return OK if are_cancelled and next_s <= (1 + TASKS_LONGER) * task_s + PING_FINE_S else HURT


def _unanswered(figures: Figures) -> float:
    return sum(figures[name] or 0 for name in ("lost", "wrong", "late"))


def _overload_texts(figures: Figures) -> tuple[str, str]:
    counts = figures["answered"], figures["refused"], _unanswered(figures)
    return "/".join(map(count, counts)), seconds(figures["done_s"])


def _mark_overload(figures: Figures) -> str:
    if figures["quick_s"] is None:
        return DEAD
    return OK if not _unanswered(figures) and figures["quick_s"] <= QUICK_RECOVERY_S else HURT


def _left_texts(figures: Figures) -> tuple[str, str]:
    return share(figures["left"]), ping(figures)


def _mark_left(figures: Figures) -> str:
    return mark_of_rate(figures["left"], figures.get("ping_p99_s"))


def _measure_endless(incident: Incident) -> Figures:
    """Return the figures under load, with the pings from the start of the endless task on."""
    figures = under_load(incident)
    if "from_s" in incident.seen and incident.pings.due_s:
        figures["ping_p99_s"] = ping_p99_s(incident, incident.seen["from_s"], incident.ended_s)
    return figures


CLIENT_FAULTS = (
    Fault(
        "leave",
        "25 clients disconnect before the response",
        "25 disconnect",
        ("wasted CPU time", "next request"),
        disconnect_clients,
        _leave_texts,
        _mark_leave,
    ),
    Fault(
        "overload",
        "800 requests at once",
        "800 at once",
        ("correct/refused/lost", "all done after"),
        overload,
        _overload_texts,
        _mark_overload,
        is_remote=True,
    ),
    Fault(
        "endless",
        "one task that never ends",
        "endless task",
        ("rate left", "ping p99"),
        start_an_endless_task,
        _left_texts,
        _mark_left,
        _measure_endless,
        ends_server=True,
        is_remote=True,
        needs_builtin_tasks=True,
    ),
    Fault(
        "slow",
        "50 connections that send an incomplete request and stay open",
        "50 slow connections",
        ("rate left", "ping p99"),
        send_incomplete_requests,
        _left_texts,
        _mark_left,
        under_load,
        is_remote=True,
    ),
)
