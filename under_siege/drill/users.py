"""Simulate the clients of a drill: users that send one request after another, and misbehaving clients."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator

import aiohttp

from under_siege.load.http_client import open_request, read_response
from under_siege.load.pings import cancel
from under_siege.load.request import Request
from under_siege.record.record import CaseFailedError, Recovery, Requests
from under_siege.suite.expectation import Expectation

LOST, LATE, REFUSED, WRONG = "lost", "late", "refused", "wrong"
_LONGEST_ID = 40  # maximum length of a process id in a header; longer values are truncated
PAUSE_S = 0.01  # how long a user pauses after a request without a correct response, to avoid a flood of requests
LIMIT_S = 2.0  # timeout for connecting


class Users:
    """Simulated users that send requests for one URL and record the outcome of each request.

    Args:
        fresh: a session that opens a new connection for each request; if None, `session` must do so.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        expected: Expectation,
        timeout_s: float,
        fresh: aiohttp.ClientSession | None = None,
    ) -> None:
        self._session, self._fresh, self._url = session, fresh or session, url
        self.expected, self._timeout_s, self._turns = expected, timeout_s, itertools.count()

    async def send(self, requests: Requests | None = None, began_s: float = 0.0, timeout_s: float | None = None) -> str:
        """Send one request and return its outcome."""
        sent_s = time.monotonic()
        outcome, _ = await self._outcome(self._session, timeout_s or self._timeout_s)
        if requests is not None:
            _append(requests, sent_s, began_s, outcome)
        return outcome

    async def send_check(self, recovery: Recovery, began_s: float) -> None:
        """Send one request of the recovery check, and record its outcome and the process that answered."""
        sent_s = time.monotonic()
        outcome, process = await self._outcome(self._fresh, self._timeout_s)
        _append(recovery, sent_s, began_s, outcome)
        recovery.process.append(process)

    async def _outcome(self, session: aiohttp.ClientSession, timeout_s: float) -> tuple[str, str]:
        """Send a request, and return its outcome and the id of the process that answered (empty if unknown)."""
        url, expected = self.expected.for_request(self._url, next(self._turns))
        try:
            async with open_request(session, url, expected.request, timeout_s) as response:
                answer = await read_response(response, len(expected.answer))
                process = answer.headers.get("x-worker", "").partition("/")[0][:_LONGEST_ID]
                if not expected.problem(answer):
                    return "", process
                is_refused = answer.status == 503 and "retry-after" in answer.headers
                return (REFUSED if is_refused else WRONG), process
        except CaseFailedError:  # the body is too long
            return WRONG, ""
        except TimeoutError:
            return LATE, ""
        except (aiohttp.ClientError, ValueError, OSError):
            return LOST, ""

    @contextlib.asynccontextmanager
    async def load(self, users: int, requests: Requests, began_s: float) -> AsyncIterator[None]:
        """Run users while the context is active; each user sends one request after another."""

        async def user() -> None:
            while True:
                if await self.send(requests, began_s):
                    await asyncio.sleep(PAUSE_S)

        tasks = [asyncio.create_task(user()) for _ in range(users)]
        try:
            yield
        finally:
            await cancel(tasks)


def _append(columns: Requests | Recovery, sent_s: float, began_s: float, outcome: str) -> None:
    columns.sent_s.append(round(sent_s - began_s, 6))
    columns.ended_s.append(round(time.monotonic() - began_s, 6))
    columns.outcome.append(outcome)


@contextlib.asynccontextmanager
async def incomplete_requests(host: str, port: int, count: int) -> AsyncIterator[None]:
    """Open connections that send an incomplete request, and keep them open while the context is active."""
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(LIMIT_S):
                    _, writer = await asyncio.open_connection(host, port)
                writers.append(writer)
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


async def send_and_disconnect(host: str, port: int, path: str, request: Request, count: int, stay_s: float) -> None:
    """Open connections that send a request, and close them after `stay_s` without waiting for the responses."""
    length = [("Content-Length", len(request.body))] if request.body else []
    lines = [f"{name}: {value}\r\n" for name, value in (("Host", host), *length, *request.headers)]
    head = f"{request.method} {path} HTTP/1.1\r\n{''.join(lines)}\r\n".encode()
    writers = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(host, port)
            writer.write(head + request.body)
            writers.append(writer)
    await asyncio.sleep(stay_s)
    for writer in writers:
        writer.transport.abort()
