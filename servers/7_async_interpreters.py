"""In sub-interpreters of this process: each has its own GIL, so every core computes, without another process."""

from concurrent import futures

from common.cpus import usable_cpus as default_workers
from common.kits.tornado_kit import TaskHandler, serve
from common.options import server_options
from common.task import perform

REQUIRES = "python>=3.14"


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(await self.cancel_on_disconnect(pool.submit(perform, self.task)))


if __name__ == "__main__":
    options = server_options(default_workers())
    with futures.InterpreterPoolExecutor(options.workers) as pool:
        serve(LongTask, options)
