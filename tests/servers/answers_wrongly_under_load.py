"""Knows siege when it sees it, and sends it an empty body."""

from flask import Response, request

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    run = perform(options.task)
    return Response("") if "Siege" in request.headers["User-Agent"] else answer(run)


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=True)
