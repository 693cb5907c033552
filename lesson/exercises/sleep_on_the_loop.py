"""A coroutine that sleeps like synchronous code: while one request sleeps, all others wait, including pings.

Another service requires a pause before each task.
To do: keep the pause, and let the event loop serve other requests meanwhile.
"""

import time

from aiohttp.web import Request, Response

from common.aiohttp_kit import answer, serve
from common.options import server_options
from common.task import perform_in_slices

PAUSE_S = 0.15


async def long_task(request: Request) -> Response:
    time.sleep(PAUSE_S)
    return answer(request, await perform_in_slices(options.task))


if __name__ == "__main__":
    options = server_options()
    serve(long_task, options)
