"""Start and stop FastAPI servers under uvicorn, and provide pings, load shedding, headers and error responses."""

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

from common import responses
from common.admission_queue import HEAD_LIMIT_S, AdmissionQueue, ArrivalBurst, is_disconnected
from common.errors import silence
from common.lifecycle import accept_waiting, announce, listening_socket, on_stop_signal, why_not_ready
from common.options import Options
from common.server_contract import BACKLOG
from common.task import TaskError, TaskRun

_CLIENT, _TICKET = "under_siege.socket", "under_siege.ticket"


def anyio_threads() -> int:
    """Return the default size of AnyIO's thread pool."""
    return 40


def task_app() -> FastAPI:
    """Return a FastAPI application with all endpoints except the long task."""
    app = FastAPI(openapi_url=None, redirect_slashes=False)
    app.add_middleware(_Admission)
    for kind in (StarletteHTTPException, responses.RefusedError, TaskError, Exception):
        app.add_exception_handler(kind, _one_line_errors)

    # With a plain `def`, a ping would wait for a thread of the pool, as tasks do.
    @app.get("/ping")
    async def ping() -> Response:
        return _plain("pong", 200, responses.ping_headers(app.state.options))

    @app.get("/ready")
    async def ready() -> Response:
        if reason := why_not_ready():
            raise responses.RefusedError(reason)
        return _plain("ready", 200)

    return app


def answer(request: Request, run: TaskRun) -> Response:
    """Return a response with the task's result, and with headers that describe the run."""
    return _plain(run.answer, 200, responses.task_headers(run, request.state.received_s))


def disconnect_check(request: Request) -> Callable[[], bool]:
    """Wait until the current burst of requests is over; return a function that checks for a disconnect.

    A thread can't be stopped from outside, so it calls the returned function whenever its task yields.
    """
    state, ticket = request.app.state, request.scope["state"].get(_TICKET)
    if ticket is None:  # this application wasn't started by `serve`
        return bool
    state.burst.wait_for_end()
    return partial(state.admission.is_disconnected, ticket)


def _plain(text: str, status: int, headers: dict[str, str] | None = None) -> Response:
    return Response(text, status, headers, media_type=responses.PLAIN_TEXT)


async def _one_line_errors(_request: Request, error: Exception) -> Response:
    if isinstance(error, StarletteHTTPException):
        return _plain(*responses.of_status(error.status_code))
    return _plain(*responses.of_error(error))


class _Admission:
    """Middleware that records when requests arrive, and admits or refuses those for the long task."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["received_s"] = responses.now_s()
        if any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"]):
            send = _closing(send)
        admission, client = getattr(scope["app"].state, "admission", None), state.get(_CLIENT)
        # Without `serve`, there is no socket; the server that runs this application must limit requests itself.
        with contextlib.ExitStack() as stack:
            app = self._app
            if admission is not None and client is not None and (scope["path"], scope["method"]) == ("/", "GET"):
                scope["app"].state.burst.note_arrival()
                app = self._admit(admission, client, state, stack)
            await app(scope, receive, send)

    def _admit(
        self, admission: AdmissionQueue, client: socket.socket, state: Any, stack: contextlib.ExitStack
    ) -> ASGIApp:
        refusal = "the client has disconnected" if is_disconnected(client) else admission.refusal()
        if refusal:
            return _plain(str(responses.RefusedError(refusal)), 503, responses.RETRY_LATER)
        state[_TICKET] = admission.join(client)
        stack.callback(admission.leave, state[_TICKET])
        return self._app


def _closing(send: Send) -> Send:
    """Wrap `send` to close the connection after the response: an unread body could be mistaken for the next request."""

    async def closing(message: Any) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
        await send(message)

    return closing


def serve(app: FastAPI, options: Options) -> None:
    """Serve the application until SIGTERM or Ctrl-C, with `options.workers` threads for plain `def` endpoints."""
    silence("uvicorn", "asyncio")
    asyncio.run(_serve(app, options))


async def _serve(app: FastAPI, options: Options) -> None:
    current_default_thread_limiter().total_tokens = options.workers
    admission = AdmissionQueue(options)
    app.state.options, app.state.admission, app.state.burst = options, admission, ArrivalBurst(admission)
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
    admission.connections = lambda: len(server.server_state.connections)
    loop = asyncio.get_running_loop()
    on_stop_signal(options, lambda: loop.call_soon_threadsafe(server.stop.set), admission.unanswered)
    await server.serve([listening_socket(options)])


class _Server(uvicorn.Server):
    """Announce the server once it is listening, and accept waiting connections before it stops."""

    def __init__(self, config: uvicorn.Config, options: Options) -> None:
        super().__init__(config)
        self._options = options
        self.stop = asyncio.Event()

    def capture_signals(self) -> Any:
        """Leave signals to `on_stop_signal`."""
        return contextlib.nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._listeners = sockets or []
        for listener in self._listeners:
            announce(self._options, listener)

    async def main_loop(self) -> None:
        main_loop = asyncio.ensure_future(super().main_loop())
        await self.stop.wait()
        for listener in self._listeners:
            await accept_waiting(listener)
        self.should_exit = True
        await main_loop


class _Protocol(H11Protocol):
    """Limit the time for receiving a request head, and cancel requests whose clients disconnect."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(HEAD_LIMIT_S, self.timeout_keep_alive_handler)
        app, client = self.app, transport.get_extra_info("socket")._sock
        self._request = CancelScope()

        async def until_disconnected(scope: Any, receive: Any, send: Any) -> None:
            scope["state"][_CLIENT] = client
            with CancelScope() as self._request:
                await app(scope, receive, send)

        self.app = until_disconnected

    def data_received(self, data: bytes) -> None:
        # As in uvicorn, except that receiving a part of a head does not reset the timeout.
        self.conn.receive_data(data)
        self.handle_events()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._request.cancel()
