"""The ping probe: what everybody else on that server feels while the siege is on.

It is an open loop: each ping is sent when it is due, whether or not the earlier ones were answered,
and its latency counts from then. A closed loop would ask less of a server that stalls, and so hide the stall
(Gil Tene calls that coordinated omission).
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator

import aiohttp

from under_siege.errors import CaseFailedError
from under_siege.http_client import get
from under_siege.model.record import Pings
from under_siege.model.suite import Ping

INTERVAL_S = 0.05


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
    """Pings at a fixed rate as long as the body runs, then waits so long for the answers that are still missing.

    Args:
        after_s: from the beginning until the first one is due.
    """
    if ping is None:
        yield
        return
    probe = _Probe(session, url, ping, pings, began_s)
    sending = asyncio.create_task(probe.send(interval_s, after_s))
    wait_s = 0.0  # if the body fails
    try:
        yield
        wait_s = patience_s
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await probe.finish(wait_s)


class _Probe:
    def __init__(self, session: aiohttp.ClientSession, url: str, asked: Ping, pings: Pings, began_s: float) -> None:
        self._session, self._url, self._fits = session, url + asked.path, asked.fits
        self._pings, self._began_s = pings, began_s
        self._waiting: set[asyncio.Task[None]] = set()

    async def send(self, interval_s: float, after_s: float) -> None:
        for number in itertools.count():
            due_s = self._began_s + after_s + number * interval_s
            await asyncio.sleep(due_s - time.monotonic())
            ping = asyncio.create_task(self._ping(due_s))
            self._waiting.add(ping)
            ping.add_done_callback(self._waiting.discard)

    async def finish(self, wait_s: float) -> None:
        if self._waiting and wait_s:
            await asyncio.wait(self._waiting, timeout=wait_s)
        for ping in self._waiting:
            ping.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)

    async def _ping(self, due_s: float) -> None:
        sent_s, problem = time.monotonic(), "not answered"
        try:
            answer = await get(self._session, self._url)
            problem = "" if self._fits(answer.status, answer.body) else answer.described()
        except aiohttp.ClientConnectorError as error:
            problem = f"not connected: {error.strerror}"
        except CaseFailedError as error:
            problem = str(error)
        finally:
            self._write_down(due_s, sent_s, problem)

    def _write_down(self, due_s: float, sent_s: float, problem: str) -> None:
        self._pings.due_s.append(round(due_s - self._began_s, 6))
        self._pings.sent_s.append(round(sent_s - self._began_s, 6))
        self._pings.waited_s.append(round(time.monotonic() - due_s, 6))
        self._pings.problem.append(problem)
