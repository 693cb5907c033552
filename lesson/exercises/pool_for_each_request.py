"""Every request gets a pool of its own: right answers, every core computes, and most of it for nothing.

A process has to be started and Python loaded before the task can begin, each time anew.
To do: let all requests share one pool, which is there before the first of them comes. Where is it to be made?
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from common.cpus import usable_cpus as default_workers
from common.kits.tornado_kit import TaskHandler, serve
from common.options import server_options
from common.parent_watch import follow_server
from common.task import perform


class LongTask(TaskHandler):
    async def get(self) -> None:
        with ProcessPoolExecutor(1, get_context("forkserver"), follow_server) as pool:
            self.answer(await self.unless_client_leaves(pool.submit(perform, self.task)))


if __name__ == "__main__":
    options = server_options(default_workers())
    serve(LongTask, options)
