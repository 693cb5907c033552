"""Provide pings, load shedding, headers, errors, startup and shutdown for Flask servers."""

import contextlib
import socket
import threading
from collections.abc import Iterable, Iterator
from http.server import HTTPServer
from typing import Any

from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException, MethodNotAllowed
from werkzeug.serving import WSGIRequestHandler, make_server
from werkzeug.wsgi import ClosingIterator

from common import responses
from common.admission_queue import DeadlineSocket, KernelQueue, is_disconnected
from common.errors import silence
from common.lifecycle import (
    announce,
    has_waiting_connection,
    listening_socket,
    on_stop_signal,
    stop_new_connections,
    why_not_ready,
)
from common.options import Options
from common.task import TaskRun

OPTIONS, ADMISSION = "OPTIONS", "ADMISSION"  # keys of the application's configuration
CLIENT = "under_siege.socket"
_SOCKETS = (CLIENT, "werkzeug.socket", "gunicorn.socket")  # keys of the WSGI environment


def task_app() -> Flask:
    """Return a Flask application with all endpoints except the long task."""
    app = Flask("under_siege", static_folder=None)

    @app.before_request
    def receive() -> None:
        g.received_s = responses.now_s()
        if request.routing_exception is None and request.method != "GET":
            raise MethodNotAllowed  # Flask would answer HEAD and OPTIONS itself
        if request.path == "/":
            _admit(app)

    @app.teardown_request
    def leave(_error: BaseException | None) -> None:
        if "ticket" in g:
            app.config[ADMISSION].leave(g.ticket)

    @app.get("/ping")
    def ping() -> Response:
        return Response("pong", headers=responses.ping_headers(app.config[OPTIONS]), content_type=responses.PLAIN_TEXT)

    @app.get("/ready")
    def ready() -> Response:
        if reason := why_not_ready():
            raise responses.RefusedError(reason)
        return Response("ready", content_type=responses.PLAIN_TEXT)

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        status = error.code or 500 if isinstance(error, HTTPException) else 500
        text, status, headers = responses.of_error(error) if status == 500 else responses.of_status(status)
        return Response(text, status, headers, content_type=responses.PLAIN_TEXT)

    return app


def _admit(app: Flask) -> None:
    admission = app.config.get(ADMISSION)
    client = next((request.environ[name] for name in _SOCKETS if name in request.environ), None)
    if admission is None or client is None:
        return  # this application wasn't started by a kit's `serve`
    _require_connected(client)
    if refusal := admission.refusal():
        raise responses.RefusedError(refusal)
    g.ticket = admission.join(client)
    admission.wait_for_turn()
    _require_connected(client)


def _require_connected(client: Any) -> None:
    if is_disconnected(client):
        raise responses.RefusedError("the client has disconnected")


def answer(run: TaskRun) -> Response:
    """Return a response with the task's result, and with headers that describe the run."""
    return Response(run.answer, headers=responses.task_headers(run, g.received_s), content_type=responses.PLAIN_TEXT)


class _RequestHandler(WSGIRequestHandler):
    connection: DeadlineSocket

    def log(self, *_: object) -> None:
        """Log nothing."""

    def run_wsgi(self) -> None:
        self.connection.head_is_read()
        super().run_wsgi()


def _ending_at_once(app: Any) -> Any:
    """Wrap an application so that the client sees the end of the response immediately.

    Otherwise, werkzeug would wait at least 10 ms, and possibly forever, for more input before closing the connection.
    """

    def parts(answer: Iterable[bytes], client: socket.socket) -> Iterator[bytes]:
        yield from answer
        yield b""  # sends the headers of an empty response
        with contextlib.suppress(OSError):  # the client has disconnected
            client.shutdown(socket.SHUT_WR)

    def call(environ: dict[str, Any], start_response: Any) -> Any:
        answer = app(environ, start_response)
        return ClosingIterator(parts(answer, environ["werkzeug.socket"]), answer.close)

    return call


def _with_deadline(client: socket.socket, address: Any) -> tuple[DeadlineSocket, Any]:
    return DeadlineSocket(client), address


def serve(app: Flask, options: Options, *, threaded: bool) -> None:
    """Serve the application with Flask's development server until SIGTERM or Ctrl-C."""
    silence("werkzeug")
    listener = listening_socket(options)
    admission = KernelQueue(options, listener)
    app.config.update({OPTIONS: options, ADMISSION: admission})
    server: Any = make_server(
        options.host,
        listener.getsockname()[1],
        _ending_at_once(app),
        threaded=threaded,
        request_handler=_RequestHandler,
        fd=listener.fileno(),
    )
    server.log = server.handle_error = lambda *_: None
    server.get_request = lambda: _with_deadline(*server.socket.accept())
    # shutdown() waits for serve_forever() to end, so it must not run on the same thread.
    on_stop_signal(options, lambda: threading.Thread(target=server.shutdown).start(), admission.unanswered)
    announce(options, listener)
    HTTPServer.serve_forever(server, poll_interval=0.05)  # werkzeug's own version would reset waiting connections
    stop_new_connections(listener)
    while has_waiting_connection(listener):
        server.handle_request()
    server.server_close()
