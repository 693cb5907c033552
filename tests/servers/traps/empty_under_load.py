"""Knows the harness and answers it rightly; whoever else asks gets an empty body with status 200."""

from flask import Response, request

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    run = perform(options.task)
    return answer(run) if "aiohttp" in request.headers.get("User-Agent", "") else Response("")


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=True)
