"""In a process pool that can stop a task: at a time limit or when its client disconnects; pebble replaces workers."""

import asyncio
from multiprocessing import get_context

from pebble import ProcessPool

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve
from common.workers import exit_with_server, usable_cpus

TIME_LIMIT_S = 60


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.future = pool.schedule(perform, [self.task], timeout=TIME_LIMIT_S)
        self.answer(await asyncio.wrap_future(self.future))

    def on_connection_close(self) -> None:
        self.future.cancel()


if __name__ == "__main__":
    options = server_options(usable_cpus())
    with ProcessPool(options.workers, initializer=exit_with_server, context=get_context("forkserver")) as pool:
        serve(LongTask, options)
        pool.stop()
