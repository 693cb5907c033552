"""Run a Flask application under gunicorn with sync workers: one process each, forked before the first request."""

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

from common.admission_queue import LineInKernel
from common.disconnects import DeadlineSocket
from common.kits.flask_kit import LINE, OPTIONS
from common.listener import announce, close_the_door, listening_socket, somebody_waits, waiting_in_kernel
from common.options import Options
from common.parent_watch import follow_parent
from common.shutdown import GRACE_S, tell_dropped


def serve(app: Flask, options: Options) -> None:
    """Serves the application until a signal says stop."""
    listener = listening_socket(options)
    line = LineInKernel(options, listener)
    app.config.update({OPTIONS: options, LINE: line})
    workers = _Workers(options, line, listener)
    _Gunicorn(
        app,
        {
            "bind": f"fd://{os.dup(listener.fileno())}",
            "workers": options.workers,
            "worker_class": _Worker,
            "timeout": 0,  # it can't tell a long task from a worker that hangs
            "graceful_timeout": int(GRACE_S) + 1,  # the workers keep the time themselves
            "loglevel": "critical",
            "control_socket_disable": True,
            "on_starting": _stop_gently_at_ctrl_c,
            "post_worker_init": workers.begin,
            "on_exit": workers.tell_dropped,
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


class _Worker(SyncWorker):  # type: ignore[misc]
    """Waits only so long for the head of a request; told to stop it still serves those who wait at the door."""

    def run(self) -> None:
        super().run()
        if self.is_parent_alive():
            self._serve_who_waits(self.sockets[0])
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _serve_who_waits(self, listener: Any) -> None:
        close_the_door(listener.sock)
        while somebody_waits(listener.sock):
            with contextlib.suppress(BlockingIOError, ConnectionAbortedError):  # another was quicker, or it has left
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
    """What they tell each other: how many can serve and be stopped, and how many requests they had to drop."""

    def __init__(self, options: Options, line: LineInKernel, listener: socket.socket) -> None:
        self._options, self._line, self._listener = options, line, listener
        fork = get_context("fork")  # as gunicorn does
        self._ready, self._dropped = fork.Value("i", 0), fork.Value("i", 0)

    def begin(self, worker: SyncWorker) -> None:
        """Called by each of them; the last says that the server listens."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the arbiter, which lets us finish
        signal.signal(signal.SIGALRM, self._end_now)
        follow_parent(worker.ppid)  # gunicorn itself looks between two requests
        with self._ready.get_lock():
            self._ready.value += 1
            if self._ready.value == self._options.workers:
                announce(self._options, worker.sockets[0].sock)

    def _end_now(self, _signal: int, _frame: FrameType | None) -> None:
        with self._dropped.get_lock():
            self._dropped.value += self._line.begun
        os._exit(0)

    def tell_dropped(self, _arbiter: Arbiter) -> None:
        """Called by the arbiter when all have ended."""
        tell_dropped(self._options, self._dropped.value + waiting_in_kernel(self._listener))
