"""On the event loop, in slices: the task yields now and then, so every request is slow, but none is blocked."""

from aiohttp.web import Request, Response

from common.aiohttp_kit import answer, serve
from common.options import server_options
from common.task import perform_in_slices


async def long_task(request: Request) -> Response:
    return answer(request, await perform_in_slices(options.task))


if __name__ == "__main__":
    options = server_options()
    serve(long_task, options)
