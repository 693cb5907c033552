"""Serving a Flask application with gunicorn's sync workers: one process for each, forked before any request."""

import signal
from multiprocessing import get_context

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers.base import Worker

from common.serving.listening import announce, listening_socket
from common.serving.options import Options
from common.serving.stopping import GRACE_S


def serve(app: Flask, options: Options) -> None:
    """Serves the application until a signal says stop."""
    app.config["OPTIONS"] = options
    _Gunicorn(
        app,
        {
            "bind": f"fd://{listening_socket(options).detach()}",
            "workers": options.workers,
            "timeout": 0,  # it can't tell a long task from a worker that hangs
            "graceful_timeout": int(GRACE_S) - 1,
            "loglevel": "critical",
            "control_socket_disable": True,
            "on_starting": _stop_gently_at_ctrl_c,
            "post_worker_init": _Readiness(options),
        },
    ).run()


class _Gunicorn(BaseApplication):  # type: ignore[misc]
    """An application that is configured here, not on a command line or in a file."""

    def __init__(self, app: Flask, settings: dict[str, object]) -> None:
        self._app, self._settings = app, settings
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        return self._app


def _stop_gently_at_ctrl_c(arbiter: Arbiter) -> None:
    arbiter.handle_int = arbiter.handle_term


class _Readiness:
    """Called by each worker when it can serve and be stopped; the last of them says that the server listens."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._ready = get_context("fork").Value("i", 0)  # shared by the workers, which gunicorn forks

    def __call__(self, worker: Worker) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the arbiter, which lets us finish
        with self._ready.get_lock():
            self._ready.value += 1
            if self._ready.value == self._options.workers:
                announce(self._options, worker.sockets[0].sock)
