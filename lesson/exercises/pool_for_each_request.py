"""A server that creates a pool for each request: the responses are correct, but most CPU time is wasted.

For each request, a new process has to start and load Python before the task can begin.
To do: let all requests share one pool that exists before the first request. Where do you create this pool?
"""

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
        with ProcessPoolExecutor(1, get_context("forkserver"), exit_with_server) as pool:
            self.answer(await loop.run_in_executor(pool, perform, self.task))


if __name__ == "__main__":
    options = server_options(usable_cpus())
    serve(LongTask, options)
