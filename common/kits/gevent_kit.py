"""Run Flask applications on gevent's server, with load shedding and clean shutdown. See also flask_kit.py."""

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

from common.admission_queue import HEAD_LIMIT_S, AdmissionQueue, is_disconnected
from common.kits.flask_kit import ADMISSION, CLIENT, OPTIONS
from common.lifecycle import announce, has_waiting_connection, listening_socket, on_stop_signal, stop_new_connections
from common.options import Options


def serve(app: Flask, options: Options) -> None:
    """Serve the application with a greenlet for each connection until SIGTERM or Ctrl-C."""
    connections = Pool()
    admission = _GreenletQueue(options, connections)
    app.config.update({OPTIONS: options, ADMISSION: admission})
    get_hub().exception_stream = None  # errors are reported to the client
    listener = listening_socket(options)
    server = WSGIServer(listener, app, spawn=connections, log=None, error_log=None, handler_class=_Handler)
    stop = gevent.event.Event()
    on_stop_signal(options, lambda: get_hub().loop.run_callback_threadsafe(stop.set), admission.unanswered)
    server.start()
    announce(options, listener)
    stop.wait()
    stop_new_connections(listener)
    attempts = 10
    while attempts and has_waiting_connection(listener):
        gevent.sleep(0)
        attempts -= 1
    server.close()
    _finish_requests(admission)
    connections.kill()


class _GreenletQueue(AdmissionQueue):
    """Start one task per iteration of the event loop while the server is overloaded, as `LoopThrottle` does."""

    def __init__(self, options: Options, connections: Pool) -> None:
        # The default function calls `poll`, which yields to greenlets that could take the last place in the queue.
        super().__init__(options, lambda clients: [key for key, client in clients.items() if is_disconnected(client)])
        self.connections, self._turn = connections.__len__, BoundedSemaphore(1)

    def wait_for_turn(self) -> None:
        if self._turn.locked() or self.is_overloaded():
            with self._turn:
                gevent.sleep(0)


def _finish_requests(admission: AdmissionQueue) -> None:
    """Wait until three consecutive checks find no requests, because more might still arrive on accepted connections."""
    idle_checks = 0
    while idle_checks < 3:
        gevent.sleep(0.01)
        idle_checks = 0 if admission.admitted else idle_checks + 1


class _HeadTimeoutError(OSError):
    """Raised if receiving a request head takes too long. gevent handles it, because it is an OSError."""


class _Handler(WSGIHandler):  # type: ignore[misc]
    """Limit the time for receiving a head, reject ambiguous heads, and cancel the requests of disconnected clients."""

    def read_requestline(self) -> str:
        self._limit = gevent.Timeout.start_new(HEAD_LIMIT_S, _HeadTimeoutError())
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

    def MessageClass(self, *args: Any) -> Message:  # noqa: N802 (gevent's name)
        headers: Message = super().MessageClass(*args)
        lengths, codings = headers.get_all("Content-Length", []), headers.get_all("Transfer-Encoding", [])
        cut_off = any(isinstance(defect, MissingHeaderBodySeparatorDefect) for defect in headers.defects)
        is_number = all(length.isascii() and length.isdigit() for length in lengths)
        if cut_off or len(lengths) + len(codings) > 1 or not is_number or codings not in ([], ["chunked"]):
            # Prevent request smuggling (RFC 9112, 6.3): a proxy and this server may disagree on where the body ends.
            # After a malformed header such as `Transfer-Encoding : chunked`, the parser ignores the rest of the head.
            raise ValueError("the length of the body is ambiguous")
        return headers

    def get_environ(self) -> dict[str, Any]:
        return {**super().get_environ(), CLIENT: self.socket._sock}

    def _handle_client_error(self, ex: BaseException) -> Any:
        return super()._handle_client_error(ex if isinstance(ex, ValueError) else ValueError(ex))

    def run_application(self) -> None:
        watcher = get_hub().loop.io(self.socket.fileno(), 1)  # 1 is libev's EV_READ
        watcher.start(self._stop_if_disconnected, gevent.getcurrent(), watcher)
        try:
            super().run_application()
        finally:
            watcher.stop()
            watcher.close()

    def _stop_if_disconnected(self, request: gevent.Greenlet, watcher: Any) -> None:
        watcher.stop()  # otherwise, it fires repeatedly while the next request waits to be read
        if is_disconnected(self.socket._sock):
            request.kill(block=False)
