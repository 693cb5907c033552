"""Answers every other request under load with an error, at once."""

import itertools

from flask import Response, request

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()
requests = itertools.count()


@app.get("/")
def long_task() -> Response:
    if "Siege" in request.headers["User-Agent"] and next(requests) % 2:
        return Response("too busy", 503)
    return answer(perform(options.task))


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=False)
