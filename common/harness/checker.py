"""The checker: asks for the task while the siege is on and reads the answer, because siege only counts its bytes.

Like the probe it does not wait for one answer before it asks again. What it asks for is work, and is counted as such.
It begins together with the users: joining later it would make the queue longer in the middle of the measurement.
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp

from common.harness.failures import CaseFailedError
from common.record import Checks

Verify = Callable[[], Awaitable[object]]


def interval_s(task_s: float) -> float:
    """Once a second, or less often where the task takes so long that this would be a load of its own."""
    return max(1.0, 2 * task_s)


@contextlib.asynccontextmanager
async def checking(
    verify: Verify, every_s: float, time_s: float, checks: Checks, began_s: float
) -> AsyncIterator[None]:
    """Checks at a fixed rate for `time_s` or as long as the body runs, then waits for the answers still missing."""
    waiting: set[asyncio.Task[None]] = set()

    async def check() -> None:
        sent_s, code, problem = time.monotonic() - began_s, "no_answer", "GET / was not answered"
        try:
            await verify()
            code, problem = "", ""
        except CaseFailedError as failed:
            code, problem = failed.code, str(failed)
        except aiohttp.ClientConnectorError as error:
            code, problem = "refused", f"GET / was refused: {error.strerror}"
        finally:
            checks.sent_s.append(round(sent_s, 6))
            checks.answered_s.append(round(time.monotonic() - began_s, 6))
            checks.code.append(code)
            checks.problem.append(problem)

    async def send() -> None:
        for number in itertools.takewhile(lambda number: number * every_s < time_s, itertools.count()):
            await asyncio.sleep(began_s + number * every_s - time.monotonic())
            task = asyncio.create_task(check())
            waiting.add(task)
            task.add_done_callback(waiting.discard)

    sending = asyncio.create_task(send())
    try:
        yield
        sending.cancel()
        await asyncio.gather(*waiting)
    finally:
        for task in (sending, *waiting):
            task.cancel()
        await asyncio.gather(sending, *waiting, return_exceptions=True)
