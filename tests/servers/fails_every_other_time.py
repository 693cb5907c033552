"""Answers every other request under load with an error, at once."""

import itertools

from flask import Response

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()
requests = itertools.count()


@app.get("/")
def long_task() -> Response:
    number = next(requests)
    if number > 3 and number % 2:
        return Response("too busy", 503)
    return answer(perform(options.task))


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=False)
