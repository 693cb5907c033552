"""A server that closes the connection of every second request from siege without a response."""

import itertools

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve

requests = itertools.count()


class LongTask(TaskHandler):
    async def get(self) -> None:
        if "Siege" in self.request.headers["User-Agent"] and next(requests) % 2:
            self.detach().close()
            return
        self.answer(perform(self.task))


if __name__ == "__main__":
    serve(LongTask, server_options())
