"""What the Flask servers share: the ping, the headers, the errors, starting and stopping."""

import threading

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.serving import WSGIRequestHandler, make_server

from common.serving.listening import announce, listening_socket
from common.serving.options import Options
from common.serving.response import PLAIN_TEXT, error_text, now_s, ping_headers, status_text, task_headers
from common.serving.stopping import on_stop_signal
from common.task import TaskRun


def task_app() -> Flask:
    """A Flask application that has everything but the long task."""
    app = Flask("under_siege", static_folder=None)

    @app.before_request
    def receive() -> None:
        g.received_s = now_s()
        if request.routing_exception is None and request.method != "GET":
            raise MethodNotAllowed  # Flask would add HEAD and OPTIONS of its own

    @app.get("/ping")
    def ping() -> Response:
        return Response("pong", headers=ping_headers(app.config["OPTIONS"]), content_type=PLAIN_TEXT)

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        status = error.code or 500 if isinstance(error, HTTPException) else 500
        text = error_text(error) if status == 500 else status_text(status)
        return Response(text, status, content_type=PLAIN_TEXT)

    return app


def answer(run: TaskRun) -> Response:
    """Answers with the task's answer and tells where and how long it ran."""
    return Response(run.answer, headers=task_headers(run, g.received_s), content_type=PLAIN_TEXT)


class _QuietRequestHandler(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        """Nothing per request."""


def serve(app: Flask, options: Options, *, threaded: bool) -> None:
    """Serves the application with Flask's own server until a signal says stop."""
    app.config["OPTIONS"] = options
    listener = listening_socket(options)
    server = make_server(
        options.host,
        listener.getsockname()[1],
        app,
        threaded=threaded,
        request_handler=_QuietRequestHandler,
        fd=listener.fileno(),
    )
    # shutdown() waits for serve_forever() to end, so it must not run on the thread that serves.
    on_stop_signal(lambda: threading.Thread(target=server.shutdown).start())
    announce(options, listener)
    server.serve_forever(poll_interval=0.05)
