"""A server that sleeps 1.3 times as long as the task takes, one request at a time, and sends a cached result."""

import time

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve


class LongTask(TaskHandler):
    async def get(self) -> None:
        time.sleep(took_s)  # noqa: ASYNC251 (the fault to detect)
        self.answer(cached)


if __name__ == "__main__":
    options = server_options()
    cached = perform(options.task)
    took_s = 1.3 * (cached.finished_s - cached.started_s)
    serve(LongTask, options)
