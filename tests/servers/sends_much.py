"""Answer with 8 MB, one thread for each connection: `python sends_much.py PORT [--buffer]`.

All responses share the same bytes. With `--buffer`, each response has a copy of its own until it is sent.
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY = b"0123456789abcdef" * 500_000


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        shared = b"pong" if self.path == "/ping" else BODY
        body = bytes(bytearray(shared)) if "--buffer" in sys.argv else shared
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128


Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
