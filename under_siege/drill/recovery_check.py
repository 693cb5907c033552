"""Check whether a server has recovered from a fault: whether it becomes idle and then answers correctly."""

import asyncio
import time

import aiohttp

from under_siege.drill.loaded_server import LOOK_S, QUICK_OF_IDLE, STEADY_CPU_S, FaultContext, quick_s
from under_siege.load.http_client import fetch
from under_siege.record.record import CaseFailedError
from under_siege.record.requests import CHECK, CORRECT, FAILED_OUTCOMES

# The recovery check requires this number of consecutive correct responses. If responses don't name their process, the
# number is multiplied by the number of listening processes.
CORRECT_IN_A_ROW = 20
AT_ONCE = 4  # minimum number of concurrent requests in the recovery check; few enough that no server sheds load
RECOVERY_LIMIT_S = 5.0  # timeout for the server to become idle, and then minimum timeout of the recovery check
PING_LIMIT_S = 0.1  # timeout of a ping


async def has_recovered(context: FaultContext) -> bool:
    """Return whether the server becomes idle within RECOVERY_LIMIT_S and then passes the recovery check."""
    context.tasks.set_cpu_time(STEADY_CPU_S)
    deadline_s = time.monotonic() + RECOVERY_LIMIT_S
    while time.monotonic() < deadline_s and context.server.alive():
        if await _answers_quickly(context) and await context.is_idle():
            return await passes_check(context)
        await asyncio.sleep(LOOK_S)
    return False


async def _answers_quickly(context: FaultContext) -> bool:
    """Return whether a request and a ping get correct responses in time."""
    if await context.users.send(timeout_s=quick_s(context.warm.idle_answer_s)) != CORRECT:
        return False
    if (ping := context.server.ping) is None:
        return True
    try:
        pong = await fetch(context.session, context.server.url + ping.path, PING_LIMIT_S, request=ping.request)
    except (CaseFailedError, aiohttp.ClientError):
        return False
    return ping.fits(pong.status, pong.body)


async def passes_check(context: FaultContext) -> bool:
    """Run the recovery check until it passes, a request fails or its time is up; return whether it passed.

    Each request opens a new connection, so that every listening process gets some requests.
    """
    incident, processes = context.incident, context.processes
    incident.recovery_answers = CORRECT_IN_A_ROW * (1 if processes else context.server.listening_processes())
    incident.recovery_processes = processes
    limit_s = max(RECOVERY_LIMIT_S, QUICK_OF_IDLE * incident.recovery_answers * (context.warm.idle_answer_s or 0.0))
    deadline_s, at_once = time.monotonic() + limit_s, max(AT_ONCE, 2 * processes)
    while not incident.has_recovered and time.monotonic() < deadline_s:
        await asyncio.gather(*(context.users.send_check(incident, context.began_s) for _ in range(at_once)))
        if any(outcome in FAILED_OUTCOMES for outcome in incident.requests.only(CHECK).outcome):
            break
    return bool(incident.has_recovered)
