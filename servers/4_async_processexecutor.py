"""In a process pool: every core computes, and pings are answered at once; a killed worker breaks the pool for good."""

import asyncio
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve
from common.workers import exit_with_server, usable_cpus


class LongTask(TaskHandler):
    async def get(self) -> None:
        loop = asyncio.get_running_loop()
        self.answer(await loop.run_in_executor(pool, perform, self.task))


if __name__ == "__main__":
    options = server_options(usable_cpus())
    with ProcessPoolExecutor(options.workers, get_context("forkserver"), initializer=exit_with_server) as pool:
        serve(LongTask, options)
