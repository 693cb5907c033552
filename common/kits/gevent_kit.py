"""Run Flask on gevent's server: load shedding, disconnected clients, start and shutdown. See also flask_kit.py."""

from email.errors import MissingHeaderBodySeparatorDefect
from email.message import Message
from typing import Any

import gevent
import gevent.event
from flask import Flask
from gevent.hub import get_hub
from gevent.lock import BoundedSemaphore
from gevent.pool import Pool
from gevent.pywsgi import WSGIHandler, WSGIServer

from common.admission_queue import Line
from common.disconnects import HEAD_LIMIT_S, has_left
from common.kits.flask_kit import CLIENT, LINE, OPTIONS
from common.listener import announce, close_the_door, listening_socket, somebody_waits
from common.options import Options
from common.shutdown import on_stop_signal

_READ = 1  # libev's EV_READ


def serve(app: Flask, options: Options) -> None:
    """Serves the application with a greenlet for each connection until a signal says stop."""
    connections = Pool()
    line = _Line(options, connections)
    app.config.update({OPTIONS: options, LINE: line})
    get_hub().exception_stream = None  # the client is told; the terminal stays quiet
    listener = listening_socket(options)
    server = WSGIServer(listener, app, spawn=connections, log=None, error_log=None, handler_class=_Handler)
    stop = gevent.event.Event()
    on_stop_signal(options, lambda: get_hub().loop.run_callback_threadsafe(stop.set), line.unanswered)
    server.start()
    announce(options, listener)
    stop.wait()
    close_the_door(listener)
    looks = 10
    while looks and somebody_waits(listener):
        gevent.sleep(0)
        looks -= 1
    server.close()
    _finish_requests(line)
    connections.kill()


class _Line(Line):
    """Where more have come than may wait, others are heard between two that begin: a task may hold the thread."""

    def __init__(self, options: Options, connections: Pool) -> None:
        # To poll would let other greenlets run, which would take the place that has just been found free.
        super().__init__(options, lambda clients: [ticket for ticket, one in clients.items() if has_left(one)])
        self.connections, self._turn = connections.__len__, BoundedSemaphore(1)

    def wait_for_turn(self) -> None:
        """In a crowd as the loop goes round once more."""
        if self._turn.locked() or self.is_crowded():
            with self._turn:
                gevent.sleep(0)


def _finish_requests(line: Line) -> None:
    """Returns when no request has been in progress for three looks: one that was just accepted begins soon."""
    quiet_looks = 0
    while quiet_looks < 3:
        gevent.sleep(0.01)
        quiet_looks = 0 if line.begun else quiet_looks + 1


class _SilentError(OSError):
    """The client has not said in time what it wants; an error of its socket, as gevent sees it."""


class _Handler(WSGIHandler):  # type: ignore[misc]
    """Waits only so long for the head of a request, refuses what can be read in two ways, sees that a client leaves."""

    def read_requestline(self) -> str:
        self._limit = gevent.Timeout.start_new(HEAD_LIMIT_S, _SilentError())
        line = ""
        try:
            line = str(super().read_requestline())
        finally:
            if not line:
                self._limit.cancel()
        return line

    def read_request(self, raw_requestline: str) -> bool:
        try:
            return bool(super().read_request(raw_requestline))
        finally:
            self._limit.cancel()

    def MessageClass(self, *args: Any) -> Message:  # noqa: N802 (gevent's name of what reads the headers)
        headers: Message = super().MessageClass(*args)
        lengths, codings = headers.get_all("Content-Length", []), headers.get_all("Transfer-Encoding", [])
        cut_off = any(isinstance(defect, MissingHeaderBodySeparatorDefect) for defect in headers.defects)
        is_number = all(one.isascii() and one.isdigit() for one in lengths)
        if cut_off or len(lengths) + len(codings) > 1 or not is_number or codings not in ([], ["chunked"]):
            # A second request may be hidden in what one reads as the body, and another doesn't (RFC 9112, 6.3); and
            # after what is no header, such as `Transfer-Encoding : chunked`, the others are not read at all.
            raise ValueError("where the body ends is ambiguous")
        return headers

    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), CLIENT: self.socket._sock}

    def _handle_client_error(self, ex: BaseException) -> Any:
        return super()._handle_client_error(ex if isinstance(ex, ValueError) else ValueError(ex))

    def run_application(self) -> None:
        look = get_hub().loop.io(self.socket.fileno(), _READ)
        look.start(self._end_if_client_has_left, gevent.getcurrent(), look)
        try:
            super().run_application()
        finally:
            look.stop()
            look.close()

    def _end_if_client_has_left(self, request: gevent.Greenlet, look: Any) -> None:
        look.stop()  # or it would be told again and again of a next request that waits to be read
        if has_left(self.socket._sock):
            request.kill(block=False)
