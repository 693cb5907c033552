"""The published fault with a right response: the server never awaits the submitted work, and sends a cached body."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve
from common.workers import exit_with_server


class LongTask(TaskHandler):
    async def get(self) -> None:
        pool.submit(perform, self.task)
        self.answer(cached)


if __name__ == "__main__":
    options = server_options(4)
    cached = perform(options.task)
    with ProcessPoolExecutor(options.workers, get_context("forkserver"), exit_with_server) as pool:
        serve(LongTask, options)
        pool.shutdown(cancel_futures=True)
