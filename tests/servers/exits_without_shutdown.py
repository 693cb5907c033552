"""A multithreaded server that exits on SIGTERM without a graceful shutdown."""

import argparse
import os
import signal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from common.task import perform

options = argparse.ArgumentParser()
for name in ("--host", "--port", "--task", "--workers"):
    options.add_argument(name)
arguments = options.parse_args()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = "pong" if self.path == "/ping" else perform(arguments.task).answer
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
Server((arguments.host, int(arguments.port)), Handler).serve_forever()
