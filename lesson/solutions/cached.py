"""Solved: the server performs the task for every request, so its rate no longer exceeds what is possible."""

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(perform(self.task))


if __name__ == "__main__":
    options = server_options()
    serve(LongTask, options)
