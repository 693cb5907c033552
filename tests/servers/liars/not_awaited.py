"""The published fault: the work is submitted and never awaited, and the body is empty."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from common.serving.options import server_options
from common.serving.tornado import TaskHandler, serve
from common.task import perform
from common.worker import follow_server


class LongTask(TaskHandler):
    async def get(self) -> None:
        pool.submit(perform, self.task)  # nobody looks at what comes of it


if __name__ == "__main__":
    options = server_options(4)
    with ProcessPoolExecutor(options.workers, get_context("forkserver"), follow_server) as pool:
        serve(LongTask, options)
        pool.shutdown(cancel_futures=True)
