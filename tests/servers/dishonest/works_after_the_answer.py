"""A server that sends a cached right response before it does the work."""

from tornado.ioloop import IOLoop

from common.options import server_options
from common.task import perform
from common.tornado_kit import TaskHandler, serve


class LongTask(TaskHandler):
    async def get(self) -> None:
        self.answer(cached)
        IOLoop.current().call_later(0.001, perform, self.task)


if __name__ == "__main__":
    options = server_options()
    cached = perform(options.task)
    serve(LongTask, options)
