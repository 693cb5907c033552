"""A server that responds sooner than any other, but sends a wrong response.

The handler submits the work to a pool of processes, but does not wait for the result.
To do: send the result of the task as soon as it is ready. `self.answer(run)` sends it;
`run` is what `perform` returns, not what `submit` returns.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve
from common.workers import exit_with_server, usable_cpus


class LongTask(TaskHandler):
    async def get(self) -> None:
        pool.submit(perform, self.task)
        self.finish("done")


if __name__ == "__main__":
    options = server_options(usable_cpus())
    with ProcessPoolExecutor(options.workers, get_context("forkserver"), exit_with_server) as pool:
        serve(LongTask, options)
