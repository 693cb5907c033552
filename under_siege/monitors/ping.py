"""The ping probe: the latency of other requests to a server while it is under load.

It is an open loop: each ping is sent when it is due, whether or not the earlier ones were answered, and its latency
counts from then. A closed loop would send fewer requests to a server that stalls, and so hide the stall (coordinated
omission).
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

import aiohttp

from under_siege.errors import CaseFailedError
from under_siege.http_client import get
from under_siege.model.record import Pings
from under_siege.model.suite import Ping

INTERVAL_S = 0.05


async def send_when_due(
    send: Callable[[float], Coroutine[Any, Any, None]], times_s: Iterable[float], waiting: set[asyncio.Task[None]]
) -> None:
    """Start a task at each of these times of `time.monotonic`; it is in `waiting` until it is done."""
    for due_s in times_s:
        await asyncio.sleep(due_s - time.monotonic())
        task = asyncio.create_task(send(due_s))
        waiting.add(task)
        task.add_done_callback(waiting.discard)


async def cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def probing(
    session: aiohttp.ClientSession,
    url: str,
    ping: Ping | None,
    patience_s: float,
    pings: Pings,
    began_s: float,
    interval_s: float = INTERVAL_S,
    after_s: float = 0.0,
) -> AsyncIterator[None]:
    """Send pings at a fixed rate while the body runs, then wait for missing answers for `patience_s`.

    Args:
        after_s: from the beginning until the first one is due.
    """
    if ping is None:
        yield
        return
    waiting: set[asyncio.Task[None]] = set()
    times_s = (began_s + after_s + number * interval_s for number in itertools.count())

    async def send(due_s: float) -> None:
        await _ping(session, url, ping, pings, began_s, due_s)

    sending = asyncio.create_task(send_when_due(send, times_s, waiting))
    try:
        yield
        await cancel([sending])
        if waiting:
            await asyncio.wait(waiting, timeout=patience_s)
    finally:
        await cancel([sending, *waiting])


async def _ping(
    session: aiohttp.ClientSession, url: str, ping: Ping, pings: Pings, began_s: float, due_s: float
) -> None:
    sent_s, problem = time.monotonic(), "not answered"
    try:
        answer = await get(session, url + ping.path)
        problem = "" if ping.fits(answer.status, answer.body) else answer.described()
    except aiohttp.ClientConnectorError as error:
        problem = f"not connected: {error.strerror}"
    except CaseFailedError as error:
        problem = str(error)
    finally:
        pings.due_s.append(round(due_s - began_s, 6))
        pings.sent_s.append(round(sent_s - began_s, 6))
        pings.waited_s.append(round(time.monotonic() - due_s, 6))
        pings.problem.append(problem)
