"""A server that does the work for the first request only, and sends the same response to all other requests."""

from functools import cache

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve

perform_once = cache(perform)


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(perform_once(self.task))


if __name__ == "__main__":
    serve(LongTask, server_options())
