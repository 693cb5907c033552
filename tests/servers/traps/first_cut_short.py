"""Its first answer lacks the last character; a tool that takes that one for the measure of all holds it for right."""

import itertools

from flask import Response

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()
requests = itertools.count()


@app.get("/")
def long_task() -> Response:
    run = perform(options.task)
    return answer(run) if next(requests) else Response(run.answer[:-1])


if __name__ == "__main__":
    options = server_options()
    serve(app, options, threaded=True)
