"""Run a Flask application under gunicorn with sync workers, which are processes forked before the first request."""

import contextlib
import os
import signal
import socket
from multiprocessing import get_context
from types import FrameType
from typing import Any

from flask import Flask
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers.sync import SyncWorker

from common.admission_queue import DeadlineSocket, KernelQueue
from common.kits.flask_kit import ADMISSION, OPTIONS
from common.lifecycle import (
    GRACE_S,
    announce,
    has_waiting_connection,
    listening_socket,
    report_dropped,
    stop_new_connections,
    waiting_in_kernel,
)
from common.options import Options
from common.parent_watch import exit_with_parent


def serve(app: Flask, options: Options) -> None:
    """Serve the application until SIGTERM or Ctrl-C."""
    listener = listening_socket(options)
    admission = KernelQueue(options, listener)
    app.config.update({OPTIONS: options, ADMISSION: admission})
    workers = _Workers(options, admission, listener)
    _Gunicorn(
        app,
        {
            "bind": f"fd://{os.dup(listener.fileno())}",
            "workers": options.workers,
            "worker_class": _Worker,
            "timeout": 0,  # otherwise, gunicorn would kill workers with long tasks
            "graceful_timeout": int(GRACE_S) + 1,  # workers stop themselves after GRACE_S
            "loglevel": "critical",
            "control_socket_disable": True,
            "on_starting": _finish_requests_at_ctrl_c,
            "post_worker_init": workers.start,
            "on_exit": workers.report_dropped,
        },
    ).run()


class _Gunicorn(BaseApplication):  # type: ignore[misc]
    """A gunicorn application that is configured in code instead of on the command line or in a file."""

    def __init__(self, app: Flask, settings: dict[str, object]) -> None:
        self._app, self._settings = app, settings
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        return self._app


def _finish_requests_at_ctrl_c(arbiter: Arbiter) -> None:
    arbiter.handle_int = arbiter.handle_term


class _Worker(SyncWorker):  # type: ignore[misc]
    """Limit the time for receiving a request head, and serve waiting connections before exiting."""

    def run(self) -> None:
        super().run()
        if self.is_parent_alive():
            self._serve_waiting(self.sockets[0])
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _serve_waiting(self, listener: Any) -> None:
        stop_new_connections(listener.sock)
        while has_waiting_connection(listener.sock):
            with contextlib.suppress(BlockingIOError, ConnectionAbortedError):
                self.accept(listener)

    def handle(self, listener: object, client: socket.socket, addr: object) -> None:
        super().handle(listener, DeadlineSocket(client), addr)

    def handle_request(self, listener: object, req: object, client: DeadlineSocket, addr: object) -> None:
        client.head_is_read()
        super().handle_request(listener, req, client, addr)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)
        super().handle_exit(sig, frame)


class _Workers:
    """The shared state of the workers: the numbers of ready workers and of dropped requests."""

    def __init__(self, options: Options, admission: KernelQueue, listener: socket.socket) -> None:
        self._options, self._admission, self._listener = options, admission, listener
        fork = get_context("fork")  # gunicorn forks its workers
        self._ready, self._dropped = fork.Value("i", 0), fork.Value("i", 0)

    def start(self, worker: SyncWorker) -> None:
        """Set up a worker after the fork, and announce the server once all workers are set up."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the arbiter handles Ctrl-C and lets workers finish
        signal.signal(signal.SIGALRM, self._end_now)
        exit_with_parent(worker.ppid)  # a gunicorn worker itself checks its parent only between requests
        with self._ready.get_lock():
            self._ready.value += 1
            if self._ready.value == self._options.workers:
                announce(self._options, worker.sockets[0].sock)

    def _end_now(self, _signal: int, _frame: FrameType | None) -> None:
        with self._dropped.get_lock():
            self._dropped.value += self._admission.admitted
        os._exit(0)

    def report_dropped(self, _arbiter: Arbiter) -> None:
        """Report the dropped requests. gunicorn calls this in the arbiter after all workers have exited."""
        report_dropped(self._options, self._dropped.value + waiting_in_kernel(self._listener))
