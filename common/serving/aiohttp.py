"""What aiohttp servers share: the ping, the headers, the errors, starting and stopping."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from common.contract import BACKLOG
from common.serving.listening import announce, listening_socket
from common.serving.options import Options
from common.serving.response import PLAIN_TEXT, error_text, now_s, ping_headers, status_text, task_headers
from common.serving.stopping import GRACE_S, on_stop_signal
from common.task import TaskRun

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_RECEIVED_S = web.RequestKey("received_s", float)


def answer(request: web.Request, run: TaskRun) -> web.Response:
    """Answers with the task's answer and tells where and how long it ran."""
    return _plain(run.answer, 200, task_headers(run, request[_RECEIVED_S]))


def serve(long_task: Handler, options: Options) -> None:
    """Serves the long task until a signal says stop."""
    asyncio.run(_serve(long_task, options))


async def _serve(long_task: Handler, options: Options) -> None:
    async def ping(_request: web.Request) -> web.Response:
        return _plain("pong", 200, ping_headers(options))

    app = web.Application(middlewares=[_one_line_errors])
    app.router.add_get("/", long_task, allow_head=False)
    app.router.add_get("/ping", ping, allow_head=False)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=GRACE_S)
    await runner.setup()
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    on_stop_signal(lambda: loop.call_soon_threadsafe(stop.set))
    listener = listening_socket(options)
    await web.SockSite(runner, listener, backlog=BACKLOG).start()
    announce(options, listener)
    await stop.wait()
    await runner.cleanup()


@web.middleware
async def _one_line_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    request[_RECEIVED_S] = now_s()
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _plain(status_text(error.status), error.status, {})
    except Exception as error:
        return _plain(error_text(error), 500, {})


def _plain(text: str, status: int, headers: dict[str, str]) -> web.Response:
    return web.Response(text=text, status=status, headers={"Content-Type": PLAIN_TEXT, **headers})
