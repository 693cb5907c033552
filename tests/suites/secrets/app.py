"""A server that returns the path, the headers and the body of each request, and prints them to stderr."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Echo(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", -1

    def do_GET(self) -> None:
        self.answer(b"pong")

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        names = ("Authorization", "X-Shop", "X-Api-Key")
        echo = "; ".join([f"path: {self.path}", *(f"{name}: {self.headers[name]}" for name in names), f"body: {sent}"])
        print(echo, file=sys.stderr, flush=True)
        self.answer(echo.encode())

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128


Server(("127.0.0.1", int(sys.argv[1])), Echo).serve_forever()
