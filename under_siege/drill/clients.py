"""Simulate the clients of a drill: they send requests and jobs, disconnect early, or send incomplete requests."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import aiohttp

from under_siege.load.http_client import HttpResponse, open_request, read_response
from under_siege.load.pings import cancel
from under_siege.load.request import Request
from under_siege.record.record import CaseFailedError, Recovery, Requests
from under_siege.suite.expected_response import Expectation

LOST, LATE, REFUSED, WRONG = "lost", "late", "refused", "wrong"
_LONGEST_ID = 40  # maximum length of a process id in a header; longer values are truncated
PAUSE_S = 0.01  # how long a user pauses after a request without a correct response, to avoid a flood of requests
CONNECT_S = 2.0  # timeout for connecting


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
        answer = await self._answer(session, url, expected, timeout_s)
        if isinstance(answer, str):
            return answer, ""
        process = answer.headers.get("x-worker", "").partition("/")[0][:_LONGEST_ID]
        if not expected.problem(answer):
            return "", process
        is_refused = answer.status == 503 and "retry-after" in answer.headers
        return (REFUSED if is_refused else WRONG), process

    async def disconnect(self, count: int, stay_s: float) -> Expectation:
        """Send the same request from several clients that disconnect after `stay_s`; return the expected response."""
        url, expected = self.expected.for_request(self._url, next(self._turns))
        await asyncio.gather(*(self._answer(self._fresh, url, expected, stay_s) for _ in range(count)))
        return expected

    async def ask(self, url: str, timeout_s: float, method: str = "GET") -> HttpResponse | str:
        """Send a request to another URL of the server, and return the response, LOST, LATE or WRONG (too long)."""
        return await self._answer(self._session, url, self.expected, timeout_s, Request(method))

    @staticmethod
    async def _answer(
        session: aiohttp.ClientSession,
        url: str,
        expected: Expectation,
        timeout_s: float,
        request: Request | None = None,
    ) -> HttpResponse | str:
        try:
            async with open_request(session, url, request or expected.request, timeout_s) as response:
                return await read_response(response, len(expected.answer))
        except CaseFailedError:  # the body is too long
            return WRONG
        except TimeoutError:
            return LATE
        except (aiohttp.ClientError, ValueError, OSError):
            return LOST

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

    @contextlib.asynccontextmanager
    async def incomplete_requests(self, count: int) -> AsyncIterator[None]:
        """Open connections that send an incomplete request, and keep them open while the context is active."""
        parts, writers = urlsplit(self._url), list[asyncio.StreamWriter]()

        async def stall() -> None:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    _, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
                writers.append(writer)
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")

        try:
            await asyncio.gather(*(stall() for _ in range(count)))
            yield
        finally:
            for writer in writers:
                writer.transport.abort()


def _append(columns: Requests | Recovery, sent_s: float, began_s: float, outcome: str) -> None:
    columns.sent_s.append(round(sent_s - began_s, 6))
    columns.ended_s.append(round(time.monotonic() - began_s, 6))
    columns.outcome.append(outcome)
