"""Serve the long task with FastAPI under uvicorn: health checks, response headers, start and shutdown."""

import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar

import uvicorn
from anyio.to_thread import current_default_thread_limiter
from fastapi import Depends, FastAPI, Request, Response
from starlette.middleware.base import RequestResponseEndpoint

from common.load_shedding import REFUSAL, RETRY_LATER, Queue
from common.options import Options
from common.server import GRACE_S, NO_OPTIONS, PLAIN_TEXT, announce, listening_socket, ping_headers, task_headers
from common.task import TaskError, TaskRun

received_s: ContextVar[float] = ContextVar("received_s")  # AnyIO copies the context of a request to its thread


def task_app() -> FastAPI:
    """Return a FastAPI application with all endpoints except the long task."""
    app = FastAPI(openapi_url=None, lifespan=lifespan, dependencies=[Depends(receive)])
    app.state.options, app.state.listener = NO_OPTIONS, None

    @app.get("/ping")  # with a plain `def`, a ping would wait for a thread of the pool, as tasks do
    async def ping() -> Response:
        return text("pong", 200, ping_headers(app.state.options))

    @app.get("/ready")
    async def ready() -> Response:
        return text("ready")

    @app.exception_handler(TaskError)
    async def fail(_request: Request, error: TaskError) -> Response:
        return text(str(error), 500)

    return app


async def receive() -> None:
    """Note when the request came: an `async` dependency runs on the event loop, before the request needs a thread.

    A middleware would cost throughput beside a thread that holds the GIL.
    """
    received_s.set(time.monotonic())


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    if app.state.listener:
        current_default_thread_limiter().total_tokens = app.state.options.workers
        announce(app.state.options, app.state.listener)
    yield


def text(body: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type=PLAIN_TEXT)


def answer(run: TaskRun) -> Response:
    """Return a response with the task's result, and with headers that describe the run."""
    return text(run.answer, 200, task_headers(run, received_s.get()))


def shed_load(app: FastAPI, queue: Queue) -> None:
    """Refuse requests for the task while the queue is full."""

    @app.middleware("http")
    async def admit(request: Request, call_next: RequestResponseEndpoint) -> Response:
        if request.url.path != "/":
            return await call_next(request)
        if not queue.enter():
            return text(REFUSAL, 503, RETRY_LATER)
        try:
            return await call_next(request)
        finally:
            queue.leave()


def serve(app: FastAPI, options: Options) -> None:
    """Serve the application until SIGTERM or Ctrl-C, with `options.workers` threads for plain `def` endpoints."""
    app.state.options, app.state.listener = options, listening_socket(options)
    if options.queue is not None:
        shed_load(app, Queue(options))
    config = uvicorn.Config(app, log_level="error", access_log=False, timeout_graceful_shutdown=GRACE_S)
    for number in (signal.SIGTERM, signal.SIGINT):  # after its graceful shutdown, uvicorn raises the signal again
        signal.signal(number, lambda *_: sys.exit())
    uvicorn.Server(config).run(sockets=[app.state.listener])
