"""In a thread pool: threads wait in parallel, but only one at a time holds the GIL, which the event loop needs, too."""

from concurrent.futures import ThreadPoolExecutor

from common.cpus import default_threads as default_workers
from common.kits.tornado_kit import TaskHandler, serve
from common.options import server_options
from common.task import perform


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(await self.cancel_on_disconnect(pool.submit(perform, self.task)))


if __name__ == "__main__":
    options = server_options(default_workers())
    with ThreadPoolExecutor(options.workers) as pool:
        serve(LongTask, options)
