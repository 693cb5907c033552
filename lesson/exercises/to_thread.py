"""A server whose task blocks the event loop while it waits, so no other request and no ping is served meanwhile.

To do: import asyncio, and call `perform` with `asyncio.to_thread`.
"""

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(perform(self.task))


if __name__ == "__main__":
    options = server_options()
    serve(LongTask, options)
