"""A server with endless output and, after the first task, endless responses to pings.

A copy named `endless_answer.py` also sends endless responses to task requests.
"""

import argparse
import contextlib
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from common.task import perform

BLOCK = b"x" * 1_000_000
task_was_requested = threading.Event()


class EndlessHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        with contextlib.suppress(OSError):
            if self.path == "/ping":
                self.ping()
            else:
                self.task()
                task_was_requested.set()

    def ping(self) -> None:
        self.send_response(200)
        self.send_header("X-Workers", "100000000")
        if task_was_requested.is_set():
            self.send_endlessly()
        self.end_headers()
        self.wfile.write(b"pong")

    def task(self) -> None:
        answer = perform(options.task).answer
        self.send_response(200)
        if Path(__file__).stem == "endless_answer":
            self.send_endlessly()
        self.end_headers()
        self.wfile.write(answer.encode())

    def send_endlessly(self) -> None:
        self.end_headers()
        for _ in range(1000):
            self.wfile.write(BLOCK)

    def log_message(self, *_) -> None:
        """Print nothing."""


def talk(stream: int) -> None:
    for _ in range(1000):
        os.write(stream, BLOCK)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--task")
    parser.add_argument("--workers")
    options = parser.parse_args()
    for stream in (1, 2):
        threading.Thread(target=talk, args=(stream,), daemon=True).start()
    ThreadingHTTPServer((options.host, options.port), EndlessHandler).serve_forever()
