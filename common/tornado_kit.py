"""Serve the long task with Tornado: handlers for the task and for health checks, start and shutdown."""

import asyncio
import contextlib
import logging
import multiprocessing
import signal
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, RequestHandler

from common.errors import one_line
from common.load_shedding import REFUSAL, RETRY_LATER, Queue
from common.options import Options
from common.server import PLAIN_TEXT, announce, listening_socket, ping_headers, task_headers
from common.task import TaskError, TaskRun


class Handler(RequestHandler):
    """Base class of all handlers: plain text, and one line for an error."""

    def initialize(self, options: Options, resource: Any) -> None:
        self.server = options  # not `self.options`, which handles requests with the method OPTIONS
        self.task, self.resource = options.task, resource  # `serve` keeps the resource open

    def set_default_headers(self) -> None:
        self.set_header("Content-Type", PLAIN_TEXT)

    def send(self, status: int, body: str, headers: Mapping[str, str]) -> None:
        self.set_status(status)
        for name, value in headers.items():
            self.set_header(name, value)
        self.finish(body)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else None
        if isinstance(error, BrokenExecutor):
            self.settings["broken"] = "the worker pool is broken; restart the server"
        self.finish(str(error) if isinstance(error, TaskError) else one_line(error or HTTPError(status_code)))

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        if not isinstance(error, (TaskError, BrokenExecutor, asyncio.CancelledError)):  # the response contains these
            super().log_exception(kind, error, trace)


class TaskHandler(Handler):
    """Base class for the handler of the long task; subclasses define `get`."""

    is_admitted = False

    def prepare(self) -> None:
        self.received_s = time.monotonic()
        self.is_admitted = self.settings["queue"].enter()
        if not self.is_admitted:
            self.send(503, REFUSAL, RETRY_LATER)

    def answer(self, run: TaskRun) -> None:
        """Send the task's result, with headers that describe the run."""
        self.send(200, run.answer, task_headers(run, self.received_s))

    def on_finish(self) -> None:
        if self.is_admitted:
            self.settings["queue"].leave()


class Health(Handler):
    def get(self, path: str) -> None:
        broken = self.settings["broken"] or getattr(self.resource, "broken", str)()
        if path == "ready":
            self.send(503 if broken else 200, broken or "ready", {})
        else:
            self.send(200, "pong", ping_headers(self.server))


def serve(
    long_task: type[TaskHandler],
    options: Options,
    resource: AbstractAsyncContextManager[Any] | None = None,
    more: Sequence[tuple[str, type[Handler]]] = (),
) -> None:
    """Serve the long task until SIGTERM or Ctrl-C; keep `resource` open meanwhile, and serve `more` endpoints."""
    logging.getLogger("tornado.access").setLevel(logging.CRITICAL)  # it logs each failed request
    asyncio.run(_serve([("/", long_task), ("/(ping|ready)", Health), *more], options, resource))


async def _serve(
    paths: Sequence[tuple[str, type[Handler]]], options: Options, resource: AbstractAsyncContextManager[Any] | None
) -> None:
    listener, stop = listening_socket(options), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with resource or contextlib.nullcontext() as opened:
        arguments = {"options": options, "resource": opened}
        handlers = [(path, handler, arguments) for path, handler in paths]
        server = HTTPServer(Application(handlers, queue=Queue(options), broken=""))
        server.add_socket(listener)
        announce(options, listener)
        await stop.wait()
        server.stop()
        await server.close_all_connections()
    for process in multiprocessing.active_children():
        process.kill()  # nobody waits any more for the tasks of a pool
