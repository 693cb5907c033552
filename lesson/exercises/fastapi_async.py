"""A FastAPI endpoint that is an `async def` but never awaits: it blocks the event loop until the task is done.

To do: let FastAPI run this endpoint in its thread pool, as it does with one kind of function.
"""

from fastapi import Request, Response

from common.fastapi_kit import answer, serve, task_app
from common.fastapi_kit import anyio_threads as default_workers
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
async def long_task(request: Request) -> Response:
    return answer(request, perform(options.task))


if __name__ == "__main__":
    options = server_options(default_workers())
    serve(app, options)
