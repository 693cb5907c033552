"""Solved: the task waits in a thread, and the event loop serves other requests meanwhile."""

import asyncio

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(await asyncio.to_thread(perform, self.task))


if __name__ == "__main__":
    options = server_options()
    serve(LongTask, options)
