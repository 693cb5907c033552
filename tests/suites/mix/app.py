"""A shop that accepts orders and reports its stock. It appends each request to access.log."""

import json
import sys
import uuid
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Orders(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # a response is one packet

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with Path("access.log").open("a") as log:
            log.write(f"POST {self.path} {body.decode()}\n")
        total = sum(range(json.loads(body)["items"]))
        self.send(201, {"id": str(uuid.uuid4()), "created_at": str(datetime.now(UTC)), "total": total})

    def do_GET(self) -> None:
        with Path("access.log").open("a") as log:
            log.write(f"GET {self.path}\n")
        self.send(200, {"in_stock": 7} if self.path == "/stock" else {})

    def send(self, status: int, answer: dict[str, object]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


ThreadingHTTPServer.request_queue_size = 128
ThreadingHTTPServer((sys.argv[1], int(sys.argv[2])), Orders).serve_forever()
