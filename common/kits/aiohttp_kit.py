"""Provide pings, load shedding, headers, errors, startup and shutdown for aiohttp servers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from common import responses
from common.admission_queue import HEAD_LIMIT_S, AdmissionQueue, LoopThrottle, is_disconnected
from common.errors import silence
from common.lifecycle import GRACE_S, accept_waiting, announce, listening_socket, on_stop_signal, why_not_ready
from common.options import Options
from common.server_contract import BACKLOG
from common.task import TaskRun

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_DISCONNECTED = "the client has disconnected"
_RECEIVED_S = web.RequestKey("received_s", float)


def answer(request: web.Request, run: TaskRun) -> web.Response:
    """Return a response with the task's result, and with headers that describe the run."""
    return _plain(run.answer, 200, responses.task_headers(run, request[_RECEIVED_S]))


def serve(long_task: Handler, options: Options) -> None:
    """Serve the long task until SIGTERM or Ctrl-C."""
    silence("aiohttp", "asyncio")
    asyncio.run(_serve(long_task, options))


async def _serve(long_task: Handler, options: Options) -> None:
    admission = AdmissionQueue(options)
    admission.connections = lambda: len(runner.server.connections) if runner.server else 0
    runner = web.AppRunner(
        _application(long_task, options, admission),
        access_log=None,
        handler_cancellation=True,  # cancels the handler when its client disconnects
        keepalive_timeout=HEAD_LIMIT_S,  # since aiohttp 3.14, this also limits the wait for the first request
        shutdown_timeout=GRACE_S + 1,  # on_stop_signal ends the server earlier and reports dropped requests
    )
    await runner.setup()
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    on_stop_signal(options, lambda: loop.call_soon_threadsafe(stop.set), admission.unanswered)
    listener = listening_socket(options)
    await web.SockSite(runner, listener, backlog=BACKLOG).start()
    announce(options, listener)
    await stop.wait()
    await accept_waiting(listener)
    await runner.cleanup()


def _application(long_task: Handler, options: Options, admission: AdmissionQueue) -> web.Application:
    throttle = LoopThrottle(admission.is_overloaded)

    async def queued_task(request: web.Request) -> web.StreamResponse:
        if refusal := admission.refusal():
            raise responses.RefusedError(refusal)
        client = _client(request)
        ticket = admission.join(client)
        try:
            await throttle.wait()
            if is_disconnected(client):
                raise responses.RefusedError(_DISCONNECTED)
            return await long_task(request)
        finally:
            admission.leave(ticket)

    async def ping(_request: web.Request) -> web.Response:
        return _plain("pong", 200, responses.ping_headers(options))

    async def ready(_request: web.Request) -> web.Response:
        if reason := why_not_ready():
            raise responses.RefusedError(reason)
        return _plain("ready", 200, {})

    app = web.Application(middlewares=[_one_line_errors])
    for path, handler in (("/", queued_task), ("/ping", ping), ("/ready", ready)):
        app.router.add_get(path, handler, allow_head=False)
    return app


def _client(request: web.Request) -> Any:
    """Return the client's socket itself, because asyncio's wrapper has no `recv`."""
    wrapper = request.get_extra_info("socket")
    if wrapper is None:
        raise responses.RefusedError(_DISCONNECTED)
    return wrapper._sock


@web.middleware
async def _one_line_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    request[_RECEIVED_S] = responses.now_s()
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _plain(*responses.of_status(error.status))
    except Exception as error:
        return _plain(*responses.of_error(error))


def _plain(text: str, status: int, headers: dict[str, str]) -> web.Response:
    return web.Response(text=text, status=status, headers={"Content-Type": responses.PLAIN_TEXT, **headers})
