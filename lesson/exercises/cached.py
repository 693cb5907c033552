"""A server that is faster than this machine can compute: it does the work once and answers every request with a copy.

Caching is often right. Here, caching is a fault, because the benchmark should measure the work.
To do: perform the task for every request.
"""

from functools import cache

from common.options import server_options
from common.task import TaskRun, perform
from common.tornado_kit import TaskHandler, serve


@cache
def answer_of(task: str) -> TaskRun:
    return perform(task)


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(answer_of(self.task))


if __name__ == "__main__":
    options = server_options()
    serve(LongTask, options)
