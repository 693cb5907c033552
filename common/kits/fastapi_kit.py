"""Shared by FastAPI servers: ping, admission queue, headers, errors, start and shutdown under uvicorn."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from anyio import CancelScope
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from common.admission_queue import Burst, Line
from common.disconnects import HEAD_LIMIT_S, has_left
from common.listener import announce, let_in_who_waits, listening_socket
from common.logging_setup import quieten
from common.options import Options
from common.responses import (
    PLAIN_TEXT,
    RETRY_LATER,
    RefusedError,
    error_text,
    now_s,
    ping_headers,
    status_headers,
    status_text,
    task_headers,
    why_not_ready,
)
from common.server_contract import BACKLOG
from common.shutdown import on_stop_signal
from common.task import TaskError, TaskRun

_CLIENT, _TICKET = "under_siege.socket", "under_siege.ticket"


def anyio_threads() -> int:
    """How many threads AnyIO's pool has by itself."""
    return 40


def task_app() -> FastAPI:
    """A FastAPI application that has everything but the long task."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.add_middleware(_Reception)
    for kind in (StarletteHTTPException, RefusedError, TaskError, Exception):
        app.add_exception_handler(kind, _told_in_one_line)

    # Not a plain `def`: it would wait for a thread of the pool as the tasks do.
    @app.get("/ping")
    async def ping() -> Response:
        return _plain("pong", 200, ping_headers(app.state.options))

    @app.get("/ready")
    async def ready() -> Response:
        if reason := why_not_ready():
            raise RefusedError(reason)
        return _plain("ready", 200)

    return app


def answer(request: Request, run: TaskRun) -> Response:
    """Answers with the task's answer and tells where and how long it ran."""
    return _plain(run.answer, 200, task_headers(run, request.state.received_s))


def unwanted(request: Request) -> Callable[[], bool]:
    """Wait until a burst of requests is over, then return a function that tells whether the client has disconnected.

    Nobody can end a thread, but a task that yields can ask.
    """
    state, ticket = request.app.state, request.scope["state"].get(_TICKET)
    if ticket is None:  # not under our server
        return bool
    state.burst.wait_for_end()
    return partial(state.line.has_left, ticket)


def _plain(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(text, status, headers, media_type=PLAIN_TEXT)


async def _told_in_one_line(_request: Request, error: Exception) -> Response:
    if isinstance(error, RefusedError):
        return _plain(str(error), 503, RETRY_LATER)
    if isinstance(error, StarletteHTTPException):
        return _plain(status_text(error.status_code), error.status_code, status_headers(error.status_code))
    return _plain(error_text(error), 500)


class _Reception:
    """Before anything else: notes when a request came, and lets it join the line if it is for the long task."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["received_s"] = now_s()
        if _has_body(scope):
            send = _closing(send)
        line, client = getattr(scope["app"].state, "line", None), state.get(_CLIENT)
        # Under a server of somebody else there is no socket, and they keep the line.
        with contextlib.ExitStack() as stack:
            app = self._app
            if line is not None and client is not None and (scope["path"], scope["method"]) == ("/", "GET"):
                scope["app"].state.burst.note_arrival()
                app = self._joined(line, client, state, stack)
            await app(scope, receive, send)

    def _joined(self, line: Line, client: socket.socket, state: Any, stack: contextlib.ExitStack) -> ASGIApp:
        refusal = "the client has left" if has_left(client) else line.refusal()
        if refusal:
            return _plain(str(RefusedError(refusal)), 503, RETRY_LATER)
        state[_TICKET] = line.join(client)
        stack.callback(line.leave, state[_TICKET])
        return self._app


def _has_body(scope: Scope) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])


def _closing(send: Send) -> Send:
    """Nothing here reads bodies, and where one ends may be ambiguous: nothing behind it is taken for a request."""

    async def closing(message: Any) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
        await send(message)

    return closing


def serve(app: FastAPI, options: Options) -> None:
    """Serves the application until a signal says stop, with so many threads for endpoints that are a plain `def`."""
    quieten("uvicorn", "asyncio")
    asyncio.run(_serve(app, options))


async def _serve(app: FastAPI, options: Options) -> None:
    current_default_thread_limiter().total_tokens = options.workers
    line = Line(options)
    app.state.options, app.state.line, app.state.burst = options, line, Burst(line)
    config = uvicorn.Config(
        app,
        http=_Protocol,
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=int(HEAD_LIMIT_S),
    )
    server = _Server(config, options)
    line.connections = lambda: len(server.server_state.connections)
    loop = asyncio.get_running_loop()
    on_stop_signal(options, lambda: loop.call_soon_threadsafe(server.stop.set), line.unanswered)
    await server.serve([listening_socket(options)])


class _Server(uvicorn.Server):
    """Says when it listens, and lets in who waits before it stops."""

    def __init__(self, config: uvicorn.Config, options: Options) -> None:
        super().__init__(config)
        self._options = options
        self.stop = asyncio.Event()

    def capture_signals(self) -> Any:
        """Signals are ours."""
        return contextlib.nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listeners = sockets or []
        for listener in self._listeners:
            announce(self._options, listener)

    async def main_loop(self) -> None:
        ticking = asyncio.ensure_future(super().main_loop())
        await self.stop.wait()
        for listener in self._listeners:
            await let_in_who_waits(listener)
        self.should_exit = True
        await ticking


class _Protocol(H11Protocol):
    """Waits only so long for the head of a request, and cancels what has not begun when its client leaves."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(HEAD_LIMIT_S, self.timeout_keep_alive_handler)
        app, client = self.app, transport.get_extra_info("socket")._sock
        self._request = CancelScope()

        async def while_it_is_there(scope: Any, receive: Any, send: Any) -> None:
            scope["state"][_CLIENT] = client
            with CancelScope() as self._request:
                await app(scope, receive, send)

        self.app = while_it_is_there

    def data_received(self, data: bytes) -> None:
        # As uvicorn's, but a part of a head does not stop the clock.
        self.conn.receive_data(data)
        self.handle_events()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._request.cancel()
