"""Provide pings, load shedding, headers, errors, startup and shutdown for Tornado servers."""

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

from common import responses
from common.admission_queue import HEAD_LIMIT_S, AdmissionQueue, LoopThrottle, disconnected, is_disconnected
from common.errors import silence
from common.lifecycle import (
    accept_waiting,
    announce,
    check_port_is_free,
    listening_socket,
    on_stop_signal,
    unready_until_restart,
    why_not_ready,
)
from common.options import Options
from common.task import TaskError, TaskRun

POOL_IS_BROKEN = "the worker pool is broken; restart the server"


class Handler(RequestHandler):
    """Base class of all handlers, with plain-text responses and one-line errors."""

    allowed = responses.ONLY_GET  # the Allow header of a 405

    def initialize(
        self, options: Options, admission: AdmissionQueue, throttle: LoopThrottle, resource: Any = None
    ) -> None:
        self.server = options  # not `self.options`, which is Tornado's handler for OPTIONS requests
        self.task = options.task
        self.admission, self.throttle = admission, throttle
        self.resource = resource  # the resource that `serve` keeps open

    def set_default_headers(self) -> None:
        self.set_header("Content-Type", responses.PLAIN_TEXT)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        error = kwargs["exc_info"][1] if "exc_info" in kwargs else None
        if isinstance(error, responses.RefusedError) or (error and status_code == 500):
            text, status, headers = responses.of_error(error)
        else:
            text, status, headers = responses.of_status(status_code, self.allowed)
        self.set_status(status)
        for name, value in headers.items():
            self.set_header(name, value)
        self.finish(text)

    def log_exception(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        """Log nothing, because the client gets the error. If the pool is broken, make `/ready` report it."""
        if isinstance(error, BrokenExecutor):
            unready_until_restart(POOL_IS_BROKEN)


class TaskHandler(Handler):
    """Base class for the handler of the long task; subclasses define `get`."""

    _waiting: ClassVar[dict[int, "TaskHandler"]] = {}  # by ticket: handlers whose work can be cancelled
    _ticket: int | None = None
    _cancel_work: Callable[[], object] | None = None

    async def prepare(self) -> None:
        self.received_s = responses.now_s()
        if self.request.method != "GET":
            return  # Tornado answers with 405
        client = self._client()
        if client is None or is_disconnected(client):
            raise HTTPError(503)
        if refusal := self.admission.refusal():
            raise responses.RefusedError(refusal)
        self._ticket = self.admission.join(client)
        if self.server.shares_thread:
            await self.throttle.wait()
            if is_disconnected(client):
                raise HTTPError(503)

    def on_finish(self) -> None:
        if self._ticket is not None:
            self.admission.leave(self._ticket)
            self._waiting.pop(self._ticket, None)

    def answer(self, run: TaskRun) -> None:
        """Send the task's result, with headers that describe the run."""
        for name, value in responses.task_headers(run, self.received_s).items():
            self.set_header(name, value)
        self.finish(run.answer)

    async def cancel_on_disconnect(self, work: Future[TaskRun] | Awaitable[TaskRun]) -> TaskRun:
        """Return the result of the work; if the client disconnects, try to cancel the work."""
        future = asyncio.wrap_future(work) if isinstance(work, Future) else asyncio.ensure_future(work)
        # Cancel the pool's future directly; asyncio would cancel it only in the next iteration of the event loop.
        self._cancel_work = work.cancel if isinstance(work, Future) else future.cancel
        if self._ticket is not None:
            self._waiting[self._ticket] = self
        try:
            return await future
        except TimeoutError:
            raise TaskError("the task was stopped at its time limit") from None
        except asyncio.CancelledError:
            raise HTTPError(503) from None

    def on_connection_close(self) -> None:
        """Cancel the requests of all disconnected clients, because a busy loop would notice most disconnects late."""
        self._cancel()
        sockets = {ticket: handler._client() for ticket, handler in self._waiting.items()}
        for ticket in disconnected({ticket: client for ticket, client in sockets.items() if client is not None}):
            self._waiting[ticket]._cancel()

    def _cancel(self) -> None:
        if self._cancel_work is not None:
            self._cancel_work()

    def _client(self) -> socket.socket | None:
        connection = self.request.connection
        return connection.stream.socket if isinstance(connection, HTTP1Connection) else None


class _Ping(Handler):
    async def get(self) -> None:
        for name, value in responses.ping_headers(self.server).items():
            self.set_header(name, value)
        self.finish("pong")


class _Ready(Handler):
    async def get(self) -> None:
        if reason := why_not_ready():
            raise responses.RefusedError(reason)
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
    """Serve the long task until SIGTERM or Ctrl-C.

    Args:
        resource: context to keep open while the server runs; handlers get its value as `self.resource`.
        more: handlers for additional paths.
    """
    silence("tornado", "asyncio")
    paths = {"/": long_task, "/ping": _Ping, "/ready": _Ready, **more}
    asyncio.run(_serve(paths, options, resource or contextlib.nullcontext()))


async def _serve(
    paths: Mapping[str, type[Handler]], options: Options, resource: AbstractAsyncContextManager[Any]
) -> None:
    check_port_is_free(options)
    admission = AdmissionQueue(options)
    async with resource as opened:
        settings = {
            "options": options,
            "admission": admission,
            "throttle": LoopThrottle(admission.is_overloaded),
            "resource": opened,
        }
        application = Application(
            [(path, handler, settings) for path, handler in paths.items()],
            default_handler_class=_NotFound,
            default_handler_args=settings,
            log_function=lambda _handler: None,
        )
        await _until_stopped(application, options, admission)


async def _until_stopped(application: Application, options: Options, admission: AdmissionQueue) -> None:
    server = HTTPServer(application, idle_connection_timeout=HEAD_LIMIT_S, body_timeout=HEAD_LIMIT_S)
    admission.connections = lambda: len(server._connections)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    on_stop_signal(options, lambda: loop.call_soon_threadsafe(stop.set), admission.unanswered)
    listener = listening_socket(options)
    server.add_sockets([listener])
    announce(options, listener)
    await stop.wait()
    await accept_waiting(listener)
    server.stop()
    await _finish_requests(admission)


async def _finish_requests(admission: AdmissionQueue) -> None:
    """Wait until three consecutive checks find no requests, because more might still arrive on accepted connections."""
    idle_checks = 0
    while idle_checks < 3:
        await asyncio.sleep(0.01)
        idle_checks = 0 if admission.admitted else idle_checks + 1
