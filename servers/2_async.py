"""On the event loop itself: `async def` alone does not help, because the loop is blocked until the task is done."""

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(perform(self.task))


if __name__ == "__main__":
    options = server_options()
    serve(LongTask, options)
