"""Run work beside the load: until it ends, or at fixed times in an open loop.

Each request of an open loop is sent when it is due, even if earlier requests are still unanswered. A closed loop would
send fewer requests to a server that stalls, which would hide the stall (coordinated omission).
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

Work = Coroutine[Any, Any, None]


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def in_background(work: Work) -> AsyncIterator[None]:
    """Run the work while the context is active, then cancel it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        await cancel([task])


@contextlib.asynccontextmanager
async def open_loop(
    send: Callable[[float], Work], times_s: Iterable[float], timeout_s: float | None
) -> AsyncIterator[None]:
    """While the context is active, start `send(due_s)` at each of the times; then wait for unfinished calls."""
    pending: set[asyncio.Task[None]] = set()

    async def send_when_due() -> None:
        for due_s in times_s:
            await asyncio.sleep(due_s - time.monotonic())
            task = asyncio.create_task(send(due_s))
            pending.add(task)
            task.add_done_callback(pending.discard)

    try:
        async with in_background(send_when_due()):
            yield
        if pending:
            await asyncio.wait(pending, timeout=timeout_s)
    finally:
        await cancel(pending)
