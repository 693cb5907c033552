"""Answers sooner than any other server here, and what it answers is not the answer.

The work goes to a pool of processes, and nobody waits for what comes of it.
To do: give everybody the answer of the task, as soon as it is there. `self.answer(run)` sends it;
`run` is what `perform` returns, and not what `submit` does.
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
        pool.submit(perform, self.task)
        self.finish("done")


if __name__ == "__main__":
    options = server_options(default_workers())
    with ProcessPoolExecutor(options.workers, get_context("forkserver"), follow_server) as pool:
        serve(LongTask, options)
