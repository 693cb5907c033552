"""A server that starts a daemon by forking twice, in a new session and without environment variables."""

import os
import sys

from flask import Response
from werkzeug.serving import make_server

from common.flask_kit import answer, configured, task_app
from common.options import server_options
from common.task import perform

app = task_app()
DAEMON = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"


@app.get("/")
def long_task() -> Response:
    return answer(perform(options.task))


def start_daemon() -> None:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 100)
            os.execve(sys.executable, [sys.executable, "-c", DAEMON, os.environ["DAEMON_PID"]], {})  # noqa: S606
        os._exit(0)
    os.wait()


if __name__ == "__main__":
    options = server_options()
    listener = configured(app, options)
    start_daemon()
    make_server("127.0.0.1", options.port, app, fd=listener.fileno(), threaded=True).serve_forever()
