"""What the Tornado servers share: the ping, the headers, the errors, starting and stopping."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, RequestHandler

from common.serving.listening import announce, listening_socket
from common.serving.options import Options
from common.serving.response import PLAIN_TEXT, error_text, now_s, ping_headers, status_text, task_headers
from common.serving.stopping import on_stop_signal
from common.task import TaskError, TaskRun


class TaskHandler(RequestHandler):
    """A handler for the long task; a server adds `get`."""

    in_progress = 0  # requests that have begun and not ended, in all handlers

    def initialize(self, options: Options, resource: Any = None) -> None:
        self.server = options  # `self.options` would be the handler of the method OPTIONS
        self.task = options.task
        self.resource = resource  # what the server keeps open as long as it serves
        self._when_client_leaves: Callable[[], object] | None = None

    def set_default_headers(self) -> None:
        self.set_header("Content-Type", PLAIN_TEXT)

    def prepare(self) -> None:
        self.received_s = now_s()
        TaskHandler.in_progress += 1

    def on_finish(self) -> None:
        TaskHandler.in_progress -= 1

    def answer(self, run: TaskRun) -> None:
        """Answers with the task's answer and tells where and how long it ran."""
        for name, value in task_headers(run, self.received_s).items():
            self.set_header(name, value)
        self.finish(run.answer)

    async def unless_client_leaves(self, future: Future[TaskRun]) -> TaskRun:
        """What the future results in; it is cancelled when the client closes its connection."""
        self._when_client_leaves = future.cancel
        try:
            return await asyncio.wrap_future(future)
        except TimeoutError:
            raise TaskError("the task was stopped at its time limit") from None
        except asyncio.CancelledError:
            raise HTTPError(503) from None  # nobody is there to read it

    def on_connection_close(self) -> None:
        if self._when_client_leaves is not None:
            self._when_client_leaves()

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        self.finish(error_text(kwargs["exc_info"][1]) if status_code == 500 else status_text(status_code))

    def log_exception(self, *_: Any) -> None:
        """The client is told; the terminal stays quiet."""


class _Ping(TaskHandler):
    async def get(self) -> None:
        for name, value in ping_headers(self.server).items():
            self.set_header(name, value)
        self.finish("pong")


class _NotFound(TaskHandler):
    def prepare(self) -> None:
        super().prepare()
        self.send_error(404)


def serve(
    long_task: type[TaskHandler], options: Options, resource: AbstractAsyncContextManager[Any] | None = None
) -> None:
    """Serves the long task until a signal says stop, and keeps the resource open meanwhile, for `self.resource`."""
    asyncio.run(_serve_with(long_task, options, resource or contextlib.nullcontext()))


async def _serve_with(
    long_task: type[TaskHandler], options: Options, resource: AbstractAsyncContextManager[Any]
) -> None:
    async with resource as opened:
        await _serve(long_task, {"options": options, "resource": opened})


async def _serve(long_task: type[TaskHandler], settings: dict[str, Any]) -> None:
    options = settings["options"]
    routes = [("/", long_task, settings), ("/ping", _Ping, settings)]
    application = Application(
        routes,
        default_handler_class=_NotFound,
        default_handler_args=settings,
        log_function=lambda _handler: None,
    )
    server = HTTPServer(application)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    on_stop_signal(lambda: loop.call_soon_threadsafe(stop.set))
    listener = listening_socket(options)
    server.add_sockets([listener])
    announce(options, listener)
    await stop.wait()
    server.stop()
    await _finish_requests()


async def _finish_requests() -> None:
    """Returns when no request has been in progress for three looks: one that was just accepted begins soon."""
    quiet_looks = 0
    while quiet_looks < 3:
        await asyncio.sleep(0.01)
        quiet_looks = 0 if TaskHandler.in_progress else quiet_looks + 1
