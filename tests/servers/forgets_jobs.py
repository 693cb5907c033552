"""A server that loses its jobs when it is killed, unless the environment variable REMEMBERS is set."""

import argparse
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

options = argparse.ArgumentParser()
for name in ("--host", "--port", "--task"):
    options.add_argument(name)
arguments = options.parse_args()
TAKES_S = 0.2
jobs: dict[str, float] = {}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/ping":
            self.answer(200, "pong")
        elif not self.path.startswith("/jobs/"):
            time.sleep(0.1)
            self.answer(200, "done")
        elif self.path not in jobs and "REMEMBERS" not in os.environ:
            self.answer(404, "never heard of it")
        elif time.monotonic() < jobs.setdefault(self.path, 0.0) + TAKES_S:
            self.answer(202, "later", {"Retry-After": "1"})
        else:
            self.answer(200, "done")

    def do_POST(self) -> None:
        place = f"/jobs/{time.monotonic_ns()}"
        jobs[place] = time.monotonic()
        self.answer(202, "taken", {"Location": place})

    def answer(self, status: int, text: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(text)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128


Server((arguments.host, int(arguments.port)), Handler).serve_forever()
