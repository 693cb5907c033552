"""What a signal does to the work that is going on."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


def until_signal(work: Coroutine[Any, Any, None]) -> int | None:
    """Does the work; the first SIGINT or SIGTERM cancels it, and its number is returned.

    Cancelling reaches the work only where it waits, so that no process is started and then forgotten,
    and only once, so that impatience does not interrupt the cleaning up.
    """
    stopped_by: list[int] = []

    async def supervised() -> None:
        task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()

        def stop(number: int) -> None:
            if not stopped_by:
                stopped_by.append(number)
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        try:
            await task
        except asyncio.CancelledError:
            if not stopped_by:
                raise

    asyncio.run(supervised())
    return stopped_by[0] if stopped_by else None
