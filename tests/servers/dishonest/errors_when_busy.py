"""A server that immediately answers with an error while another request is being processed."""

import asyncio

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve


class LongTask(TaskHandler):
    async def get(self) -> None:
        if busy.locked():
            self.set_status(503)
            self.finish("too busy")
            return
        async with busy:
            self.answer(await asyncio.to_thread(perform, self.task))


if __name__ == "__main__":
    busy = asyncio.Lock()
    serve(LongTask, server_options())
