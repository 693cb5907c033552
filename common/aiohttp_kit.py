"""Serve the long task with aiohttp: health checks, response headers, start and shutdown."""

import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from common.load_shedding import REFUSAL, RETRY_LATER, Queue
from common.options import Options
from common.server import GRACE_S, announce, listening_socket, ping_headers, task_headers
from common.task import TaskError, TaskRun

RECEIVED_S = web.RequestKey("received_s", float)


def answer(request: web.Request, run: TaskRun) -> web.Response:
    """Return a response with the task's result, and with headers that describe the run."""
    return web.Response(text=run.answer, headers=task_headers(run, request[RECEIVED_S]))


def serve(long_task: Callable[[web.Request], Awaitable[web.StreamResponse]], options: Options) -> None:
    """Serve the long task until SIGTERM or Ctrl-C."""
    queue = Queue(options)

    async def admitted(request: web.Request) -> web.StreamResponse:
        request[RECEIVED_S] = time.monotonic()
        if not queue.enter():
            return web.Response(text=REFUSAL, status=503, headers=RETRY_LATER)
        try:
            return await long_task(request)
        except TaskError as error:
            return web.Response(text=str(error), status=500)
        finally:
            queue.leave()

    async def ping(_request: web.Request) -> web.Response:
        return web.Response(text="pong", headers=ping_headers(options))

    async def ready(_request: web.Request) -> web.Response:
        return web.Response(text="ready")

    app = web.Application()
    app.add_routes([web.get("/", admitted), web.get("/ping", ping), web.get("/ready", ready)])
    listener = listening_socket(options)
    web.run_app(
        app, sock=listener, print=lambda _: announce(options, listener), access_log=None, shutdown_timeout=GRACE_S
    )
