"""Solved: FastAPI runs a plain `def` function in a thread, so the event loop stays free."""

from fastapi import Response

from common.fastapi_kit import answer, serve, task_app
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(app.state.options.task))


if __name__ == "__main__":
    options = server_options(40)
    serve(app, options)
