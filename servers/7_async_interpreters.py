"""In sub-interpreters of this process: each has its own GIL, so every core computes, without another process."""

import asyncio
from concurrent import futures

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve
from common.workers import usable_cpus

REQUIRES = "python>=3.14"


class LongTask(TaskHandler):
    async def get(self) -> None:
        loop = asyncio.get_running_loop()
        self.answer(await loop.run_in_executor(pool, perform, self.task))


if __name__ == "__main__":
    options = server_options(usable_cpus())
    with futures.InterpreterPoolExecutor(options.workers) as pool:
        serve(LongTask, options)
