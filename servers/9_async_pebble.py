"""In a process pool that can stop a task: at a time limit or when its client disconnects; pebble replaces workers."""

from multiprocessing import get_context

from pebble import ProcessPool

from common.cpus import usable_cpus as default_workers
from common.kits.tornado_kit import TaskHandler, serve
from common.lifecycle import unready_while
from common.options import server_options
from common.parent_watch import exit_with_server
from common.task import perform

TIME_LIMIT_S = 60


class LongTask(TaskHandler):
    async def get(self) -> None:
        future = pool.schedule(perform, [self.task], timeout=TIME_LIMIT_S)
        self.answer(await self.cancel_on_disconnect(future))


if __name__ == "__main__":
    options = server_options(default_workers())
    with ProcessPool(options.workers, initializer=exit_with_server, context=get_context("forkserver")) as pool:
        unready_while(lambda: "" if pool.active else "the worker pool is broken; restart the server")
        serve(LongTask, options)
