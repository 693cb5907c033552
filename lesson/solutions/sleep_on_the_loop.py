"""Solved: `await asyncio.sleep` pauses only this coroutine. Meanwhile, the event loop runs other coroutines."""

import asyncio

from aiohttp.web import Request, Response

from common.aiohttp_kit import answer, serve
from common.options import server_options
from common.task import perform_in_slices

PAUSE_S = 0.15


async def long_task(request: Request) -> Response:
    await asyncio.sleep(PAUSE_S)
    return answer(request, await perform_in_slices(options.task))


if __name__ == "__main__":
    options = server_options()
    serve(long_task, options)
