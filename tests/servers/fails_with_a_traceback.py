"""Gives so many right answers as FINE says, then fails and says why on stderr only, as most servers do."""

import itertools
import logging
import os

from flask import Response

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()
fine, answers = int(os.environ.get("FINE", "0")), itertools.count()


@app.get("/")
def long_task() -> Response:
    if next(answers) < fine:
        return answer(perform(options.task))
    try:
        return Response({}["customer"])
    except KeyError:
        logging.exception("Exception on / [GET]")
        return Response("Internal Server Error", 500)


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=False)
