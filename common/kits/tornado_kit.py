"""Shared by Tornado servers: ping, admission queue, headers, errors, start and shutdown."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import BrokenExecutor, Future
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any, ClassVar

from tornado.http1connection import HTTP1Connection
from tornado.httpserver import HTTPServer
from tornado.web import Application, HTTPError, RequestHandler

from common.admission_queue import Line, Turns
from common.disconnects import HEAD_LIMIT_S, has_left, who_has_left
from common.listener import announce, let_in_who_waits, listening_socket, must_be_free
from common.logging_setup import quieten
from common.options import Options
from common.responses import (
    ONLY_GET,
    PLAIN_TEXT,
    RETRY_LATER,
    RefusedError,
    error_text,
    now_s,
    ping_headers,
    status_headers,
    status_text,
    task_headers,
    unready_until_restart,
    why_not_ready,
)
from common.shutdown import on_stop_signal
from common.task import TaskError, TaskRun

POOL_IS_BROKEN = "the worker pool is broken; restart the server"


class Handler(RequestHandler):
    """What all handlers share: plain text, and errors of one line."""

    allowed = ONLY_GET  # the methods that there are

    def initialize(self, options: Options, line: Line, turns: Turns, resource: Any = None) -> None:
        self.server = options  # `self.options` would be the handler of the method OPTIONS
        self.task = options.task
        self.line, self.turns = line, turns
        self.resource = resource  # what the server keeps open as long as it serves

    def set_default_headers(self) -> None:
        self.set_header("Content-Type", PLAIN_TEXT)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else None
        if isinstance(error, RefusedError):
            self.set_status(503)
            for name, value in RETRY_LATER.items():
                self.set_header(name, value)
            self.finish(str(error))
        else:
            for name, value in status_headers(status_code, self.allowed).items():
                self.set_header(name, value)
            told = status_text(status_code, self.allowed)
            self.finish(error_text(error) if error and status_code == 500 else told)

    def log_exception(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        """Log nothing, since the client gets the error; if the pool is broken, `/ready` reports that from now on."""
        if isinstance(error, BrokenExecutor):
            unready_until_restart(POOL_IS_BROKEN)


class TaskHandler(Handler):
    """A handler for the long task; a server adds `get`."""

    _waiting: ClassVar[dict[int, "TaskHandler"]] = {}  # those whose work can be taken back, by their tickets
    _ticket: int | None = None
    _when_client_leaves: Callable[[], object] | None = None

    async def prepare(self) -> None:
        self.received_s = now_s()
        if self.request.method != "GET":
            return  # it is about to be told so
        client = self._client()
        if client is None or has_left(client):
            raise HTTPError(503)  # nobody is there to read it
        if refusal := self.line.refusal():
            raise RefusedError(refusal)
        self._ticket = self.line.join(client)
        if self.server.shares_thread:
            await self.turns.mine()
            if has_left(client):
                raise HTTPError(503)

    def on_finish(self) -> None:
        if self._ticket is not None:
            self.line.leave(self._ticket)
            self._waiting.pop(self._ticket, None)

    def answer(self, run: TaskRun) -> None:
        """Answers with the task's answer and tells where and how long it ran."""
        for name, value in task_headers(run, self.received_s).items():
            self.set_header(name, value)
        self.finish(run.answer)

    async def unless_client_leaves(self, work: Future[TaskRun] | Awaitable[TaskRun]) -> TaskRun:
        """Return the result of the work; if the client disconnects, try to cancel the work with its own `cancel()`."""
        future = asyncio.wrap_future(work) if isinstance(work, Future) else asyncio.ensure_future(work)
        # Cancel the pool's future directly; asyncio would cancel it only in the next iteration of the event loop.
        self._when_client_leaves = work.cancel if isinstance(work, Future) else future.cancel
        if self._ticket is not None:
            self._waiting[self._ticket] = self
        try:
            return await future
        except TimeoutError:
            raise TaskError("the task was stopped at its time limit") from None
        except asyncio.CancelledError:
            raise HTTPError(503) from None  # nobody is there to read it

    def on_connection_close(self) -> None:
        """Where one leaves, others may have left, too: a loop that has to queue for the GIL is slow to tell of each."""
        self._drop()
        clients = {ticket: client for ticket, one in self._waiting.items() if (client := one._client()) is not None}
        for ticket in who_has_left(clients):
            self._waiting[ticket]._drop()

    def _drop(self) -> None:
        if self._when_client_leaves is not None:
            self._when_client_leaves()

    def _client(self) -> socket.socket | None:
        connection = self.request.connection
        return connection.stream.socket if isinstance(connection, HTTP1Connection) else None


class _Ping(Handler):
    async def get(self) -> None:
        for name, value in ping_headers(self.server).items():
            self.set_header(name, value)
        self.finish("pong")


class _Ready(Handler):
    async def get(self) -> None:
        if reason := why_not_ready():
            raise RefusedError(reason)
        self.finish("ready")


class _NotFound(Handler):
    def prepare(self) -> None:
        self.send_error(404)


def serve(
    long_task: type[TaskHandler],
    options: Options,
    resource: AbstractAsyncContextManager[Any] | None = None,
    more: Mapping[str, type[Handler]] = MappingProxyType({}),
) -> None:
    """Serves the long task until a signal says stop, and keeps the resource open meanwhile, for `self.resource`.

    Args:
        more: handlers of further paths.
    """
    quieten("tornado", "asyncio")
    paths = {"/": long_task, "/ping": _Ping, "/ready": _Ready, **more}
    asyncio.run(_serve_with(paths, options, resource or contextlib.nullcontext()))


async def _serve_with(
    paths: Mapping[str, type[Handler]], options: Options, resource: AbstractAsyncContextManager[Any]
) -> None:
    must_be_free(options)
    async with resource as opened:
        await _serve(paths, {"options": options, "line": Line(options), "resource": opened})


async def _serve(paths: Mapping[str, type[Handler]], settings: dict[str, Any]) -> None:
    options, line = settings["options"], settings["line"]
    settings["turns"] = Turns(line.is_crowded)
    application = Application(
        [(path, handler, settings) for path, handler in paths.items()],
        default_handler_class=_NotFound,
        default_handler_args=settings,
        log_function=lambda _handler: None,
    )
    server = HTTPServer(application, idle_connection_timeout=HEAD_LIMIT_S, body_timeout=HEAD_LIMIT_S)
    line.connections = lambda: len(server._connections)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    on_stop_signal(options, lambda: loop.call_soon_threadsafe(stop.set), line.unanswered)
    listener = listening_socket(options)
    server.add_sockets([listener])
    announce(options, listener)
    await stop.wait()
    await let_in_who_waits(listener)
    server.stop()
    await _finish_requests(line)


async def _finish_requests(line: Line) -> None:
    """Returns when no request has been in progress for three looks: one that was just accepted begins soon."""
    quiet_looks = 0
    while quiet_looks < 3:
        await asyncio.sleep(0.01)
        quiet_looks = 0 if line.begun else quiet_looks + 1
