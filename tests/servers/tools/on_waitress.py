"""Flask on waitress, whose threads share the GIL: it is slower than any load tool that is not written in Python."""

import sys

import waitress
from flask import Response

from common.flask_kit import answer, task_app
from common.load_shedding import Queue
from common.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(options.task))


if __name__ == "__main__":
    options = server_options()
    app.config.update(OPTIONS=options, QUEUE=Queue(options))
    sys.stderr = open("/dev/null", "w")  # noqa: PTH123, SIM115 (waitress warns about its queue for every request)
    waitress.serve(app, host=options.host, port=options.port, threads=8)
