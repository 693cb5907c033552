"""A server that sends six right responses, then wrong ones with the same length and the same response time."""

import dataclasses
import itertools

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve

requests = itertools.count()


class LongTask(TaskHandler):
    async def get(self) -> None:
        run = perform(self.task)
        if next(requests) > 5:
            run = dataclasses.replace(run, answer="x" * len(run.answer))
        self.answer(run)


if __name__ == "__main__":
    serve(LongTask, server_options())
