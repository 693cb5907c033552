"""Inject faults caused by clients: disconnects, overload, endless tasks, and incomplete or invalid requests."""

import asyncio
import time

from common.workers import usable_cpus
from under_siege.faults.fault import (
    DEAD,
    HIDDEN,
    HURT,
    NEVER,
    NEVER_S,
    OK,
    PING_FINE_S,
    QUICK_RECOVERY_S,
    Fault,
    after,
    count,
    mark_of_rate,
    ping,
    seconds,
    share,
)
from under_siege.faults.fault_context import USERS, FaultContext, quick_s
from under_siege.faults.incident_metrics import Figures, ping_p99_s, rate_between, under_load
from under_siege.faults.users import (
    LATE,
    LOST,
    REFUSED,
    WRONG,
    incomplete_requests,
    send_and_disconnect,
    send_malformed,
)
from under_siege.model.record import Incident
from under_siege.processes.managed_process import until

AFTER_S = 0.6  # duration of the load after a permanent fault
LEAVERS, STAY_S = 25, 0.15  # number of clients that disconnect, and seconds until they do
TIMES_USERS = 10
SLOW_CONNECTIONS, MALFORMED = 50, 10_000
LEAVE_CPU_S, MALFORMED_CPU_S = 0.3, 0.001  # CPU time of a task for each of these faults
CPU_LIMIT_S, IDLE_CHECKS = 12.0, 2  # timeout for the next request, and for IDLE_CHECKS idle checks in a row
MOST_WASTED_CPU = 0.15  # tasks that use at most this share of their full CPU time count as cancelled
TASKS_LONGER = 2.0  # maximum number of other tasks that the next request is allowed to wait for
WATCHED_S = 0.8  # how long endless tasks were measured in older results, which don't record this duration


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
    """Send ten times the usual number of concurrent requests, then single requests until one is quick again."""
    requests, seen = context.incident.requests, context.incident.seen
    context.began_s = time.monotonic()
    context.mark_fault()
    users = context.users
    outcomes = await asyncio.gather(*(users.send(requests, context.began_s) for _ in range(TIMES_USERS * USERS)))
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


async def start_endless_tasks(context: FaultContext) -> None:
    """Start one endless task, then more until there is one for each worker (at most one for each user)."""
    seen, workers = context.incident.seen, min(USERS, context.incident.workers or usable_cpus())
    async with context.under_load():
        context.mark_fault()
        before = context.rate_before()
        for name, tasks in (("one", 1), ("all", workers - 1)):
            if not tasks:  # there is only one worker
                seen |= {f"all_{name}": seen[f"one_{name}"] for name in ("left", "from_s", "to_s")}
                break
            for number in range(tasks):
                context.make_next_task_endless(f"{name}{number}")
            await until(lambda: not context.has_pending_endless_task(), 1.0)
            from_s = context.now_s()
            await asyncio.sleep(AFTER_S)
            to_s = context.now_s()
            left = rate_between(context.incident, from_s, to_s) / before if before else 0.0
            seen |= {f"{name}_left": left, f"{name}_from_s": from_s, f"{name}_to_s": to_s}
    seen["before_per_s"] = before


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


async def send_malformed_requests(context: FaultContext) -> None:
    """Send invalid or ambiguous HTTP requests; record survival, log lines and responses to smuggled requests."""
    context.set_task_cpu(MALFORMED_CPU_S)
    incident, server = context.incident, context.server
    lines = server.lines_said()
    context.began_s = time.monotonic()
    context.mark_fault()
    sent, smuggled = await send_malformed(*context.address, MALFORMED, incident.round)
    outcome = await context.users.send(incident.requests, context.began_s)
    incident.seen |= {"sent": sent, "smuggled": smuggled, "alive": float(server.alive() and not outcome)}
    incident.seen["lines"] = server.lines_said() - lines
    incident.ended_s = context.now_s()


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
    return "/".join(map(count, counts)), after(figures["quick_s"])


def _mark_overload(figures: Figures) -> str:
    if figures["quick_s"] is None:
        return DEAD
    return OK if not _unanswered(figures) and figures["quick_s"] <= QUICK_RECOVERY_S else HURT


def _measure_endless(incident: Incident) -> Figures:
    figures = under_load(incident)
    for name in ("one", "all"):
        if f"{name}_from_s" in incident.seen and incident.pings.due_s:
            from_s = incident.seen[f"{name}_from_s"]
            to_s = incident.seen.get(f"{name}_to_s", from_s + WATCHED_S)
            figures[f"{name}_ping_p99_s"] = ping_p99_s(incident, from_s, to_s)
    return figures


def _endless_texts(figures: Figures) -> tuple[str, str]:
    one, every = (
        f"{share(figures.get(f'{name}_left'))}, {ping(figures, f'{name}_ping_p99_s')}" for name in ("one", "all")
    )
    return one, every


def _mark_endless(figures: Figures) -> str:
    """Return the worse of the marks for one endless task and for one endless task per worker."""
    marks = (mark_of_rate(figures.get(f"{name}_left"), figures.get(f"{name}_ping_p99_s")) for name in ("one", "all"))
    return max(marks, key=[OK, HURT, DEAD, HIDDEN].index)


def _malformed_texts(figures: Figures) -> tuple[str, str]:
    return "alive" if figures["alive"] else "dead", f"{count(figures['lines'])}, {count(figures['smuggled'])}"


def _mark_malformed(figures: Figures) -> str:
    if not figures["alive"]:
        return DEAD
    return OK if not figures["lines"] and not figures["smuggled"] else HURT


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
        "ten times as many users as before",
        "10 times the users",
        ("correct/refused/lost", "quick after"),
        overload,
        _overload_texts,
        _mark_overload,
        is_remote=True,
    ),
    Fault(
        "endless",
        "one task that never ends, then one for each worker",
        "endless task",
        ("one: rate left, ping", "all: rate left, ping"),
        start_endless_tasks,
        _endless_texts,
        _mark_endless,
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
        lambda figures: (share(figures["left"]), ping(figures)),
        lambda figures: mark_of_rate(figures["left"], figures.get("ping_p99_s")),
        under_load,
        is_remote=True,
    ),
    Fault(
        "malformed",
        "10,000 invalid or ambiguous HTTP requests",
        "10,000 malformed",
        ("alive", "log lines, smuggled"),
        send_malformed_requests,
        _malformed_texts,
        _mark_malformed,
        is_once=True,
    ),
)
