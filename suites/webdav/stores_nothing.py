"""A control instead of a WebDAV server: it discards every uploaded file, and returns the same text for all of them."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAGE = Path("htdocs/private/test.html").read_bytes()
STORED = b"body 00000000-0000-0000-0000-000000000000\n"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # send head and body together

    def do_GET(self) -> None:
        self.answer(200, PAGE if self.path == "/private/test.html" else STORED)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(201, b"")

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Handler).serve_forever()
