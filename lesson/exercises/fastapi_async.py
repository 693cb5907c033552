"""A FastAPI endpoint that is an `async def` but never awaits: it blocks the event loop until the task is done.

To do: let FastAPI run this endpoint in its thread pool, as it does with one kind of function.
"""

from fastapi import Response

from common.fastapi_kit import answer, serve, task_app
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
async def long_task() -> Response:
    return answer(perform(app.state.options.task))


if __name__ == "__main__":
    options = server_options(40)
    serve(app, options)
