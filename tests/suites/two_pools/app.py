"""Serve from two processes that share a port; each has a process pool that stays broken once its child is killed.

An app with a `ProcessPoolExecutor` behaves like this under `uvicorn --workers 2`.
"""

import os
import signal
import socket
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CPU_S, WAIT_S = 0.01, 0.03


def report() -> bytes:
    """Use the CPU longer than the HTTP server does, and wait."""
    ends_s = time.process_time() + CPU_S
    while time.process_time() < ends_s:
        sum(range(500))
    time.sleep(WAIT_S)
    return b"a report"


def serve(listening: socket.socket) -> None:
    """Answer requests until the process ends."""
    pool = ProcessPoolExecutor(1)
    pool.submit(report).result()  # forks the child before there are threads

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                status, body = 200, pool.submit(report).result() if self.path == "/report" else b"healthy"
            except BrokenProcessPool:
                status, body = 500, b"the pool is broken"
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    class Server(ThreadingHTTPServer):
        def server_bind(self) -> None:
            self.socket = listening
            self.server_address = listening.getsockname()
            self.server_name, self.server_port = "localhost", self.server_address[1]

        def server_activate(self) -> None:
            """Do nothing, because the socket already listens."""

    Server(("127.0.0.1", 0), Handler).serve_forever()


if __name__ == "__main__":
    listening = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
    children = []
    for _ in range(2):
        if child := os.fork():
            children.append(child)
        else:
            serve(listening)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(child, signal.SIGKILL) for child in children] and sys.exit(0))
    signal.pause()
