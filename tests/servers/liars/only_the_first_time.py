"""Does the work for the first request only, and gives everybody else the same answer."""

from functools import cache

from common.options import server_options
from common.task import perform
from common.tornado_app import TaskHandler, serve

perform_once = cache(perform)


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(perform_once(self.task))


if __name__ == "__main__":
    serve(LongTask, server_options())
