"""Users that send requests without a pause while something goes wrong, and single requests."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import aiohttp

from under_siege.errors import CaseFailedError
from under_siege.http_client import answer_of, raw_url
from under_siege.model.requests import Recovery, Requests
from under_siege.monitors.ping import cancel
from under_siege.targets.expectation import Expectation

LOST, LATE, REFUSED, WRONG = "lost", "late", "refused", "wrong"
_LONGEST_ID = 40  # characters of a process id: the header may hold anything
PAUSE_S = 0.01  # of a user whose request ended without work, so that a refusal is not a flood


class Users:
    """Send requests for one URL, and record the outcome of each.

    Args:
        fresh: a session that opens a connection for each request; None: `session` does so.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        expected: Expectation,
        patience_s: float,
        fresh: aiohttp.ClientSession | None = None,
    ) -> None:
        self._session, self._fresh, self._url = session, fresh or session, url
        self.expected, self._patience_s = expected, patience_s

    async def ask(self, requests: Requests | None = None, began_s: float = 0.0, patience_s: float | None = None) -> str:
        """Send one request and return its outcome."""
        sent_s = time.monotonic()
        outcome, _ = await self._outcome(self._session, patience_s or self._patience_s)
        if requests is not None:
            _append(requests, sent_s, began_s, outcome)
        return outcome

    async def check(self, recovery: Recovery, began_s: float) -> None:
        """Send one request of the recovery check and record its outcome and the process that answered."""
        sent_s = time.monotonic()
        outcome, process = await self._outcome(self._fresh, self._patience_s)
        _append(recovery, sent_s, began_s, outcome)
        recovery.process.append(process)

    async def _outcome(self, session: aiohttp.ClientSession, patience_s: float) -> tuple[str, str]:
        """Send a request; return its outcome and the id of the process that answered, if known."""
        timeout = aiohttp.ClientTimeout(total=patience_s)
        try:
            async with session.get(raw_url(self._url), timeout=timeout, allow_redirects=False) as response:
                answer = await answer_of(response, len(self.expected.answer))
                process = answer.headers.get("x-worker", "").partition("/")[0][:_LONGEST_ID]
                if not self.expected.problem(answer):
                    return "", process
                is_refused = answer.status == 503 and "retry-after" in answer.headers
                return (REFUSED if is_refused else WRONG), process
        except CaseFailedError:  # more bytes than expected
            return WRONG, ""
        except TimeoutError:
            return LATE, ""
        except (aiohttp.ClientError, ValueError, OSError):
            return LOST, ""

    @contextlib.asynccontextmanager
    async def asking(self, users: int, requests: Requests, began_s: float) -> AsyncIterator[None]:
        """Let so many users send one request after the other while the body runs."""

        async def user() -> None:
            while True:
                if await self.ask(requests, began_s):
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
