"""Knows the harness and answers it rightly; to others every second answer is an error, at once."""

import itertools

from flask import Response, request

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()
requests = itertools.count()


@app.get("/")
def long_task() -> Response:
    if "aiohttp" not in request.headers.get("User-Agent", "") and next(requests) % 2:
        return Response("Internal Server Error", 500)
    return answer(perform(options.task))


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=True)
