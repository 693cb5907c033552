"""A server that loses work: half of its jobs if it is killed, and the task that it runs if it gets SIGTERM.

It runs one task at a time, and answers pings meanwhile.
"""

import argparse
import itertools
import os
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from common.task import perform

options = argparse.ArgumentParser()
for name in ("--host", "--port", "--task", "--workers"):
    options.add_argument(name)
arguments = options.parse_args()
numbers, accepted, one_at_a_time = itertools.count(), set[str](), threading.Lock()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/ping":
            self.answer(200, "pong")
        elif self.path == "/":
            with one_at_a_time:
                self.answer(200, perform(arguments.task).answer)
        elif self.path in accepted or int(self.path.removeprefix("/jobs/")) % 2:
            self.answer(200, "done")
        else:
            self.answer(404, "never heard of it")

    def do_POST(self) -> None:
        place = f"/jobs/{next(numbers)}"
        accepted.add(place)
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


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
Server((arguments.host, int(arguments.port)), Handler).serve_forever()
