"""Run jobs after the response, and limit how many are pending."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import BrokenExecutor

from fastapi import HTTPException


class LimitedJobs:
    def __init__(self, most_pending: int) -> None:
        self.free, self.is_broken = asyncio.Semaphore(most_pending), False
        self.pending: set[asyncio.Task[None]] = set()

    async def start(self, job: Callable[[], Awaitable[object]]) -> None:
        if self.is_broken:
            raise HTTPException(503, "the process pool is broken")
        try:
            await asyncio.wait_for(self.free.acquire(), timeout=5)
        except TimeoutError:  # before Python 3.11: asyncio.TimeoutError
            raise HTTPException(503, "too many jobs are pending", {"Retry-After": "5"}) from None
        task = asyncio.create_task(self.run(job))
        self.pending.add(task)
        task.add_done_callback(self.pending.discard)

    async def run(self, job: Callable[[], Awaitable[object]]) -> None:
        try:
            await job()
        except Exception as error:
            self.is_broken = self.is_broken or isinstance(error, BrokenExecutor)
            logging.exception("a job failed; it is not retried")
        finally:
            self.free.release()

    async def finish(self) -> None:  # when the server stops
        if self.pending:
            await asyncio.wait(self.pending, timeout=20)
