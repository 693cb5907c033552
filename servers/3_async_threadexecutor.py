"""In a thread pool: threads wait in parallel, but only one at a time holds the GIL, which the event loop needs, too."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve
from common.workers import default_threads


class LongTask(TaskHandler):
    async def get(self) -> None:
        loop = asyncio.get_running_loop()
        self.answer(await loop.run_in_executor(pool, perform, self.task))


if __name__ == "__main__":
    options = server_options(default_threads())
    with ThreadPoolExecutor(options.workers) as pool:
        serve(LongTask, options)
