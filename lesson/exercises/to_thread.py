"""`perform` is ordinary code that waits, and it waits on the event loop: one user at a time, and no ping in between.

To do: import asyncio, and let `asyncio.to_thread` call it.
"""

from common.kits.tornado_kit import TaskHandler, serve
from common.options import server_options
from common.task import perform


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(perform(self.task))


if __name__ == "__main__":
    options = server_options()
    serve(LongTask, options)
