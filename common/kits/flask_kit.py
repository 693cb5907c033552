"""Shared by Flask servers: ping, admission queue, headers, errors, start and shutdown."""

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

from common.admission_queue import LineInKernel
from common.disconnects import DeadlineSocket, has_left
from common.listener import announce, close_the_door, listening_socket, somebody_waits
from common.logging_setup import quieten
from common.options import Options
from common.responses import (
    PLAIN_TEXT,
    RETRY_LATER,
    RefusedError,
    error_text,
    now_s,
    ping_headers,
    status_headers,
    status_text,
    task_headers,
    why_not_ready,
)
from common.shutdown import on_stop_signal
from common.task import TaskRun

OPTIONS, LINE = "OPTIONS", "LINE"  # what a server puts into the configuration of the application
CLIENT = "under_siege.socket"
_SOCKETS = (CLIENT, "werkzeug.socket", "gunicorn.socket")  # where servers put the client's into the WSGI environment


def task_app() -> Flask:
    """A Flask application that has everything but the long task."""
    app = Flask("under_siege", static_folder=None)

    @app.before_request
    def receive() -> None:
        g.received_s = now_s()
        if request.routing_exception is None and request.method != "GET":
            raise MethodNotAllowed  # Flask would add HEAD and OPTIONS of its own
        if request.path == "/":
            _join_line(app)

    @app.teardown_request
    def leave(_error: BaseException | None) -> None:
        if "ticket" in g:
            app.config[LINE].leave(g.ticket)

    @app.get("/ping")
    def ping() -> Response:
        return Response("pong", headers=ping_headers(app.config[OPTIONS]), content_type=PLAIN_TEXT)

    @app.get("/ready")
    def ready() -> Response:
        if reason := why_not_ready():
            raise RefusedError(reason)
        return Response("ready", content_type=PLAIN_TEXT)

    @app.errorhandler(Exception)
    def fail(error: Exception) -> Response:
        if isinstance(error, RefusedError):
            return Response(str(error), 503, RETRY_LATER, content_type=PLAIN_TEXT)
        status = error.code or 500 if isinstance(error, HTTPException) else 500
        text = error_text(error) if status == 500 else status_text(status)
        return Response(text, status, status_headers(status), content_type=PLAIN_TEXT)

    return app


def _join_line(app: Flask) -> None:
    line, client = (
        app.config.get(LINE),
        next((request.environ[name] for name in _SOCKETS if name in request.environ), None),
    )
    if line is None or client is None:
        return  # under a server of somebody else, who keeps its line
    _refuse_if_it_has_left(client)
    if refusal := line.refusal():
        raise RefusedError(refusal)
    g.ticket = line.join(client)
    line.wait_for_turn()
    _refuse_if_it_has_left(client)


def _refuse_if_it_has_left(client: Any) -> None:
    if has_left(client):
        raise RefusedError("the client has left")


def answer(run: TaskRun) -> Response:
    """Answers with the task's answer and tells where and how long it ran."""
    return Response(run.answer, headers=task_headers(run, g.received_s), content_type=PLAIN_TEXT)


class _RequestHandler(WSGIRequestHandler):
    connection: DeadlineSocket

    def log(self, *_: object) -> None:
        """Nothing per request."""

    def run_wsgi(self) -> None:
        self.connection.head_is_read()
        super().run_wsgi()


def _saying_where_it_ends(app: Any) -> Any:
    """The client is told as soon as all has been sent; werkzeug waits for what it may still say: 10 ms, or for ever."""

    def parts(answer: Iterable[bytes], client: socket.socket) -> Iterator[bytes]:
        yield from answer
        yield b""  # with this the headers are sent, if there was nothing else
        with contextlib.suppress(OSError):  # it has left
            client.shutdown(socket.SHUT_WR)

    def call(environ: dict[str, Any], start_response: Any) -> Any:
        answer = app(environ, start_response)
        return ClosingIterator(parts(answer, environ["werkzeug.socket"]), answer.close)

    return call


def _hasty(client: socket.socket, address: Any) -> tuple[DeadlineSocket, Any]:
    return DeadlineSocket(client), address


def serve(app: Flask, options: Options, *, threaded: bool) -> None:
    """Serves the application with Flask's own server until a signal says stop."""
    quieten("werkzeug")
    listener = listening_socket(options)
    line = LineInKernel(options, listener)
    app.config.update({OPTIONS: options, LINE: line})
    server: Any = make_server(
        options.host,
        listener.getsockname()[1],
        _saying_where_it_ends(app),
        threaded=threaded,
        request_handler=_RequestHandler,
        fd=listener.fileno(),
    )
    server.log = server.handle_error = lambda *_: None
    server.get_request = lambda: _hasty(*server.socket.accept())
    # shutdown() waits for serve_forever() to end, so it must not run on the thread that serves.
    on_stop_signal(options, lambda: threading.Thread(target=server.shutdown).start(), line.unanswered)
    announce(options, listener)
    HTTPServer.serve_forever(server, poll_interval=0.05)  # werkzeug's own closes the socket, and resets who waits
    close_the_door(listener)
    while somebody_waits(listener):
        server.handle_request()
    server.server_close()
