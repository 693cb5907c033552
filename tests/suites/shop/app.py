"""A small service for tests of suites, with a slow report and a health check."""

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KIND = sys.argv[2] if len(sys.argv) > 2 else ""
WAITS_S = 0.02


class Service(BaseHTTPRequestHandler):
    """A request handler whose reports depend on the second command-line argument."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        if path == "/health":
            self.respond(204, b"")
        elif path == "/report":
            time.sleep(WAITS_S)
            self.respond(*self.report(query))
        else:
            self.respond(404, b"nothing here")

    def report(self, query: str) -> tuple[int, bytes]:
        if KIND == "wrong":
            return 200, b"other of 4"
        if KIND == "failing":
            raise KeyError(query)
        return 200, f"report {query}".encode()

    def respond(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 204:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    """A server with a long listen backlog."""

    request_queue_size = 128


Server(("127.0.0.1", int(sys.argv[1])), Service).serve_forever()
