"""In a process pool that can stop a task: at a time limit, or when its client has left; lost workers are replaced."""

from common.cpus import usable_cpus as default_workers
from common.kits.pebble_kit import worker_pool
from common.kits.tornado_kit import TaskHandler, serve
from common.options import server_options
from common.task import perform

TIME_LIMIT_S = 60


class LongTask(TaskHandler):
    async def get(self) -> None:
        future = pool.schedule(perform, [self.task], timeout=TIME_LIMIT_S)
        self.answer(await self.unless_client_leaves(future))


if __name__ == "__main__":
    options = server_options(default_workers())
    with worker_pool(options.workers) as pool:
        serve(LongTask, options)
