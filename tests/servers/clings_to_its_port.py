"""Ignores SIGTERM, and so does its child, which holds the port and has left the session."""

import os
import signal
import time

from flask import Response
from werkzeug.serving import make_server

from common.serving.flask import answer, task_app
from common.serving.listening import listening_socket
from common.serving.options import server_options
from common.task import perform

app = task_app()


@app.get("/")
def long_task() -> Response:
    return answer(perform(options.task))


if __name__ == "__main__":
    options = server_options()
    app.config["OPTIONS"] = options
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    listener = listening_socket(options)
    if os.fork() == 0:
        os.setsid()
        make_server("127.0.0.1", options.port, app, fd=listener.fileno()).serve_forever()
    while True:
        time.sleep(60)
