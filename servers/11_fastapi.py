"""FastAPI with a plain `def`: it runs in a pool of 40 threads, and the GIL lets only one of them compute at a time."""

from fastapi import Response

from common.fastapi_kit import answer, serve, task_app
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(app.state.options.task))


if __name__ == "__main__":
    options = server_options(40)  # the default of AnyIO, whose threads FastAPI uses
    serve(app, options)
