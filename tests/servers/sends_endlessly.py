"""A server with endless output and, after its first response, endless responses to pings.

usage: sends_endlessly.py PORT [answer]

With `answer`, its other responses are endless, too.
"""

import contextlib
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BLOCK = b"x" * 1_000_000
MOST_BLOCKS = 400
has_answered = threading.Event()


class EndlessHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        with contextlib.suppress(OSError):
            is_endless = has_answered.is_set() if self.path == "/ping" else len(sys.argv) > 2
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"pong")
            for _ in range(MOST_BLOCKS if is_endless else 0):
                self.wfile.write(BLOCK)
            if self.path != "/ping":
                has_answered.set()

    def log_message(self, *_) -> None:
        """Print nothing."""


def talk(stream: int) -> None:
    for _ in range(MOST_BLOCKS):
        os.write(stream, BLOCK)


for stream in (1, 2):
    threading.Thread(target=talk, args=(stream,), daemon=True).start()
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), EndlessHandler).serve_forever()
