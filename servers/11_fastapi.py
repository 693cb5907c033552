"""FastAPI with a plain `def`: it runs in a pool of 40 threads, and the GIL lets only one of them compute at a time."""

from fastapi import Request, Response

from common.kits.fastapi_kit import answer, disconnect_check, serve, task_app
from common.kits.fastapi_kit import anyio_threads as default_workers
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task(request: Request) -> Response:
    return answer(request, perform(options.task, disconnect_check(request)))


if __name__ == "__main__":
    options = server_options(default_workers(), most_waiting=10)
    serve(app, options)
