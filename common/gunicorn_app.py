"""Serving a Flask application with gunicorn's sync workers: one process for each, forked before any request."""

import signal

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers.base import Worker

from common.listening import announce, listening_socket
from common.options import Options
from common.stopping import GRACE_S


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
            "post_worker_init": _leave_ctrl_c_to_the_arbiter,
            "when_ready": lambda arbiter: announce(options, arbiter.LISTENERS[0].sock),
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


def _leave_ctrl_c_to_the_arbiter(_worker: Worker) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
