"""Solved: one pool is created before the first request, and closed after the last request."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve
from common.workers import exit_with_server
from common.workers import usable_cpus as default_workers


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(await self.cancel_on_disconnect(pool.submit(perform, self.task)))


if __name__ == "__main__":
    options = server_options(default_workers())
    with ProcessPoolExecutor(options.workers, get_context("forkserver"), exit_with_server) as pool:
        serve(LongTask, options)
