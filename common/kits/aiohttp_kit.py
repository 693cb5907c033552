"""Shared by aiohttp servers: ping, admission queue, headers, errors, start and shutdown."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from common.admission_queue import Line, Turns
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
from common.shutdown import GRACE_S, on_stop_signal
from common.task import TaskRun

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_LEFT = "the client has left"
_RECEIVED_S = web.RequestKey("received_s", float)


def answer(request: web.Request, run: TaskRun) -> web.Response:
    """Answers with the task's answer and tells where and how long it ran."""
    return _plain(run.answer, 200, task_headers(run, request[_RECEIVED_S]))


def serve(long_task: Handler, options: Options) -> None:
    """Serves the long task until a signal says stop."""
    quieten("aiohttp", "asyncio")
    asyncio.run(_serve(long_task, options))


async def _serve(long_task: Handler, options: Options) -> None:
    line = Line(options)
    line.connections = lambda: len(runner.server.connections) if runner.server else 0
    runner = web.AppRunner(
        _application(long_task, options, line),
        access_log=None,
        handler_cancellation=True,  # when its client leaves
        keepalive_timeout=HEAD_LIMIT_S,  # from aiohttp 3.14 on it holds for the first request of a connection, too
        shutdown_timeout=GRACE_S + 1,  # the alarm is sooner, and says what it drops
    )
    await runner.setup()
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    on_stop_signal(options, lambda: loop.call_soon_threadsafe(stop.set), line.unanswered)
    listener = listening_socket(options)
    await web.SockSite(runner, listener, backlog=BACKLOG).start()
    announce(options, listener)
    await stop.wait()
    await let_in_who_waits(listener)
    await runner.cleanup()


def _application(long_task: Handler, options: Options, line: Line) -> web.Application:
    turns = Turns(line.is_crowded)

    async def in_line(request: web.Request) -> web.StreamResponse:
        if refusal := line.refusal():
            raise RefusedError(refusal)
        client = _client(request)
        ticket = line.join(client)
        try:
            await turns.mine()
            if has_left(client):
                raise RefusedError(_LEFT)
            return await long_task(request)
        finally:
            line.leave(ticket)

    async def ping(_request: web.Request) -> web.Response:
        return _plain("pong", 200, ping_headers(options))

    async def ready(_request: web.Request) -> web.Response:
        if reason := why_not_ready():
            raise RefusedError(reason)
        return _plain("ready", 200, {})

    app = web.Application(middlewares=[_one_line_errors])
    for path, handler in (("/", in_line), ("/ping", ping), ("/ready", ready)):
        app.router.add_get(path, handler, allow_head=False)
    return app


def _client(request: web.Request) -> Any:
    """Its socket, as Python has it; asyncio shows only one that can't be read from."""
    shown = request.get_extra_info("socket")
    if shown is None:
        raise RefusedError(_LEFT)
    return shown._sock


@web.middleware
async def _one_line_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    request[_RECEIVED_S] = now_s()
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _plain(status_text(error.status), error.status, status_headers(error.status))
    except RefusedError as error:
        return _plain(str(error), 503, RETRY_LATER)
    except Exception as error:
        return _plain(error_text(error), 500, {})


def _plain(text: str, status: int, headers: dict[str, str]) -> web.Response:
    return web.Response(text=text, status=status, headers={"Content-Type": PLAIN_TEXT, **headers})
