"""The published fault with a right response: the server never awaits the submitted work, and sends a cached body."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from common.kits.tornado_kit import TaskHandler, serve
from common.options import server_options
from common.parent_watch import exit_with_server
from common.task import perform


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
