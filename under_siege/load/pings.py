"""Send pings during the load, in an open loop. The latency of a ping is measured from its due time."""

import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from functools import partial

import aiohttp

from under_siege.load.background import open_loop
from under_siege.load.http_client import fetch
from under_siege.load.request import Ping
from under_siege.record.record import CaseFailedError
from under_siege.record.requests import CORRECT, LATE, LOST, OPEN, WRONG, Requests, Sender

# In the middle of a pause between frequent pings, a single one is sent, as health checks of load balancers are.
QUIET_S = (0.75, 1.25)
ALONE_AT_S = 1.0


def probing(
    session: aiohttp.ClientSession,
    url: str,
    ping: Ping | None,
    timeout_s: float,
    requests: Requests,
    began_s: float,
    interval_s: float | None = None,
    first_s: float = 0.0,
    quiet_s: tuple[float, float] = (0.0, 0.0),
    *,
    is_cut: bool = False,
) -> AbstractAsyncContextManager[None]:
    """While the context is active, send pings, the first at `began_s + first_s`; then wait for pending responses.

    Args:
        interval_s: None for that of the ping.
        quiet_s: seconds after `began_s` between which no ping is sent.
        is_cut: whether pings without a response are `open` at the end, instead of waiting for their responses.
    """
    if ping is None:
        return contextlib.nullcontext()
    every_s = interval_s or ping.every_s
    after_s = (first_s + number * every_s for number in itertools.count())
    times_s = (began_s + at_s for at_s in after_s if not (ping.is_frequent and quiet_s[0] < at_s < quiet_s[1]))
    send = partial(_ping, session, url, ping, requests, began_s, "ping", is_cut=is_cut)
    return open_loop(send, times_s, 0.0 if is_cut else timeout_s)


@contextlib.asynccontextmanager
async def probing_alone(
    session: aiohttp.ClientSession,
    url: str,
    ping: Ping | None,
    timeout_s: float,
    requests: Requests,
    began_s: float,
    *,
    is_cut: bool = False,
) -> AsyncIterator[None]:
    """While the context is active, send one ping at ALONE_AT_S; then wait for the response, unless `is_cut`."""
    if ping is None or not ping.is_frequent:
        yield
        return
    send = partial(_ping, session, url, ping, requests, began_s, "lone_ping", is_cut=is_cut)
    async with open_loop(send, [began_s + ALONE_AT_S], 0.0 if is_cut else timeout_s):
        yield


async def _ping(
    session: aiohttp.ClientSession,
    url: str,
    ping: Ping,
    requests: Requests,
    began_s: float,
    sender: Sender,
    due_s: float,
    *,
    is_cut: bool,
) -> None:
    sent_s, status = time.monotonic(), 0
    outcome, problem = (OPEN, "") if is_cut else (LATE, "not answered")
    try:
        answer = await fetch(session, url + ping.path, request=ping.request)
        status, is_right = answer.status, ping.fits(answer.status, answer.body)
        outcome, problem = (CORRECT, "") if is_right else (WRONG, answer.described())
    except aiohttp.ClientConnectorError as error:
        outcome, problem = LOST, f"not connected: {error.strerror}"
    except CaseFailedError as error:
        outcome, problem = LOST, str(error)
    finally:
        requests.add(
            sender,
            due_s=due_s - began_s,
            sent_s=sent_s - began_s,
            ended_s=time.monotonic() - began_s,
            status=status,
            outcome=outcome,
            problem=problem,
        )
