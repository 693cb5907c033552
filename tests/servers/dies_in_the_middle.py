"""Answers siege twice, then ends without a word of goodbye."""

import os
import sys

from flask import Response, request

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()
answers = []


@app.get("/")
def long_task() -> Response:
    answers.append("Siege" in request.headers["User-Agent"])
    if sum(answers) > 2:
        print("Segmentation fault (or something like it)", file=sys.stderr, flush=True)
        os._exit(3)
    return answer(perform(options.task))


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=False)
