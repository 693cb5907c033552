"""Serve the long task with Flask: health checks, response headers, and three servers, each imported where it starts."""

import contextlib
import logging
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

from flask import Flask, Response, g, request

from common.load_shedding import REFUSAL, RETRY_LATER, Queue
from common.options import Options
from common.server import GRACE_S, NO_OPTIONS, PLAIN_TEXT, announce, listening_socket, ping_headers, task_headers
from common.task import TaskError, TaskRun


def task_app() -> Flask:
    """Return a Flask application with all endpoints except the long task."""
    app = Flask("under_siege", static_folder=None)
    app.config.update(OPTIONS=NO_OPTIONS, QUEUE=Queue(NO_OPTIONS))

    @app.before_request
    def enter() -> Response | None:
        g.received_s = time.monotonic()
        if request.path == "/":
            g.is_admitted = app.config["QUEUE"].enter()
            if not g.is_admitted:
                return text(REFUSAL, 503, RETRY_LATER)
        return None

    @app.teardown_request
    def leave(_error: BaseException | None) -> None:
        if g.get("is_admitted"):
            app.config["QUEUE"].leave()

    @app.get("/ping")
    def ping() -> Response:
        return text("pong", 200, ping_headers(app.config["OPTIONS"]))

    @app.get("/ready")
    def ready() -> Response:
        return text("ready")

    @app.errorhandler(TaskError)
    def fail(error: TaskError) -> Response:
        return text(str(error), 500)

    return app


def text(body: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, content_type=PLAIN_TEXT)


def answer(run: TaskRun) -> Response:
    """Return a response with the task's result, and with headers that describe the run."""
    return text(run.answer, 200, task_headers(run, g.received_s))


def configured(app: Flask, options: Options) -> socket.socket:
    """Give the application its options, and return the socket on which it is to listen."""
    app.config.update(OPTIONS=options, QUEUE=Queue(options))
    return listening_socket(options)


def serve(app: Flask, options: Options, *, threaded: bool) -> None:
    """Serve the application with Flask's development server, which SIGTERM and Ctrl-C end at once."""
    from werkzeug.serving import make_server

    listener = configured(app, options)
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # it logs each request
    server = make_server(options.host, listener.getsockname()[1], app, threaded=threaded, fd=listener.fileno())
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # werkzeug ends when it is interrupted
    with contextlib.suppress(KeyboardInterrupt):  # before serve_forever, which handles it
        announce(options, listener)
        server.serve_forever()


def serve_with_gevent(app: Flask, options: Options) -> None:
    """Serve the application with a greenlet for each connection until SIGTERM or Ctrl-C."""
    import gevent
    from gevent.pool import Pool
    from gevent.pywsgi import WSGIServer

    listener = configured(app, options)
    gevent.get_hub().exception_stream = None  # responses contain the errors of tasks
    server = WSGIServer(listener, app, spawn=Pool(), log=None)  # with a pool, stop() waits for requests
    server.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        gevent.signal_handler(number, server.stop, GRACE_S)
    announce(options, listener)
    server.serve_forever()


def serve_with_gunicorn(app: Flask, options: Options, **settings: Any) -> None:
    """Serve the application in processes of gunicorn with these settings until SIGTERM or Ctrl-C."""
    from gunicorn.app.base import BaseApplication
    from gunicorn.dirty import DirtyError

    app.register_error_handler(DirtyError, lambda error: text(error.message, 500))

    class Application(BaseApplication):  # type: ignore[misc]
        def load_config(self) -> None:
            for name, value in settings.items():
                self.cfg.set(name, value)

        def load(self) -> Flask:
            return app

    def when_ready(arbiter: Any) -> None:
        dirty, until_s = arbiter.dirty_arbiter, time.monotonic() + GRACE_S
        while dirty and not Path(dirty.socket_path).exists() and time.monotonic() < until_s:
            time.sleep(0.01)  # the process that manages dirty workers listens a little later
        announce(options, arbiter.LISTENERS[0].sock)

    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # for the end of the process that manages dirty workers
    settings |= {
        "bind": f"fd://{configured(app, options).detach()}",
        "proc_name": f"{options.name}-{os.getpid()}",  # gunicorn ends the dirty workers of a server of the same name
        "loglevel": "critical",
        "graceful_timeout": GRACE_S,
        "control_socket_disable": True,
        "when_ready": when_ready,
    }
    Application().run()
