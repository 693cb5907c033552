"""The answer check: request the task during the load and read the answers, because siege only counts their bytes.

It is an open loop like the ping probe. Its requests are work, and are counted as work.
It begins together with the users: joining later it would make the queue longer in the middle of the measurement.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from under_siege.errors import CaseFailedError
from under_siege.model.record import Checks
from under_siege.monitors.ping import cancel, send_when_due

Verify = Callable[[int], Awaitable[object]]


def interval_s(task_s: float) -> float:
    """Return 1 s, or more for long tasks: a server that does one after the other spends at most 10 % on checks."""
    return max(1.0, 10 * task_s)


class Checker:
    """Send requests, compare the answers, and record the outcomes."""

    def __init__(self, verify: Verify, checks: Checks, began_s: float) -> None:
        self._verify, self._checks, self._began_s = verify, checks, began_s

    async def check(self, in_a_row: int = 1) -> None:
        """Ask once; so many times where a connection is kept, in which what comes first may be another answer."""
        sent_s, code, problem = time.monotonic(), "no_answer", "GET / was not answered"
        try:
            await self._verify(in_a_row)
            code, problem = "", ""
        except CaseFailedError as failed:
            code, problem = failed.code, str(failed)
        finally:
            self._checks.sent_s.append(round(sent_s - self._began_s, 6))
            self._checks.answered_s.append(round(time.monotonic() - self._began_s, 6))
            self._checks.code.append(code)
            self._checks.problem.append(problem)

    @contextlib.asynccontextmanager
    async def checking(self, every_s: float, end_s: Callable[[], float]) -> AsyncIterator[None]:
        """Check at a fixed rate while the body runs, then wait for the answers still missing.

        Args:
            end_s: when the siege will end, as far as that is known now; nothing is sent after that.
        """
        waiting: set[asyncio.Task[None]] = set()
        after_s = itertools.takewhile(lambda at_s: at_s < end_s(), (number * every_s for number in itertools.count()))
        times_s = (self._began_s + at_s for at_s in after_s)
        asking = asyncio.create_task(send_when_due(lambda _: self.check(), times_s, waiting))
        try:
            yield
            asking.cancel()
            await asyncio.gather(*waiting)
        finally:
            await cancel([asking, *waiting])
