"""The checker: asks for the task while the siege is on and reads the answer, because siege only counts its bytes.

Like the probe it does not wait for one answer before it asks again. What it asks for is work, and is counted as such.
It begins together with the users: joining later it would make the queue longer in the middle of the measurement.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from under_siege.errors import CaseFailedError
from under_siege.model.record import Checks

Verify = Callable[[int], Awaitable[object]]


def interval_s(task_s: float) -> float:
    """Once a second, or less often where the task takes so long that this would be a load of its own.

    A server that does one task after the other spends at most a tenth of its time on the checks.
    """
    return max(1.0, 10 * task_s)


class Checker:
    """Asks, compares, and writes down what came of it."""

    def __init__(self, verify: Verify, checks: Checks, began_s: float) -> None:
        self._verify, self._checks, self._began_s = verify, checks, began_s

    async def check(self, in_a_row: int = 1) -> None:
        """Asks once; so many times where a connection is kept, in which what comes first may be another answer."""
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
        """Asks at a fixed rate as long as the body runs, then waits for the answers still missing.

        Args:
            end_s: when the siege will end, as far as that is known now; nothing is asked for at its very end.
        """
        waiting: set[asyncio.Task[None]] = set()

        async def ask() -> None:
            for number in itertools.takewhile(lambda number: number * every_s < end_s(), itertools.count()):
                await asyncio.sleep(self._began_s + number * every_s - time.monotonic())
                task = asyncio.create_task(self.check())
                waiting.add(task)
                task.add_done_callback(waiting.discard)

        asking = asyncio.create_task(ask())
        try:
            yield
            asking.cancel()
            await asyncio.gather(*waiting)
        finally:
            for task in (asking, *waiting):
                task.cancel()
            await asyncio.gather(asking, *waiting, return_exceptions=True)
