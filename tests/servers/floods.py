"""Prints as much as it can on stdout and stderr while it serves."""

import os
import threading

from flask import Response

from common.serving.flask import answer, serve, task_app
from common.serving.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(options.task))


def flood(stream):
    while True:  # past Python's buffers, whose locks it could not get any more while it shuts down
        os.write(stream, b"all work and no play makes a dull server\n" * 1000)


if __name__ == "__main__":
    options = server_options()
    threading.Thread(target=flood, args=[1], daemon=True).start()
    threading.Thread(target=flood, args=[2], daemon=True).start()
    serve(app, options, threaded=True)
