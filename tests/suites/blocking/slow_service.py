"""A service for other test applications: it prints its URL and answers each request after 20 ms."""

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Slow(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        time.sleep(0.02)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
server.serve_forever()
