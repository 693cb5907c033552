"""The published server, with its fault: it submits the work but never awaits it, and the body is empty."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve
from common.workers import exit_with_server


class LongTask(TaskHandler):
    async def get(self) -> None:
        pool.submit(perform, self.task)


if __name__ == "__main__":
    options = server_options(4)
    with ProcessPoolExecutor(options.workers, get_context("forkserver"), exit_with_server) as pool:
        serve(LongTask, options)
        pool.shutdown(cancel_futures=True)
