"""Solved: FastAPI runs a plain `def` function in a thread, so the event loop stays free."""

from fastapi import Request, Response

from common.fastapi_kit import answer, serve, task_app
from common.fastapi_kit import anyio_threads as default_workers
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task(request: Request) -> Response:
    return answer(request, perform(options.task))


if __name__ == "__main__":
    options = server_options(default_workers())
    serve(app, options)
