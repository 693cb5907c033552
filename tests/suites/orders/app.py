"""A shop that accepts orders as JSON, returns an id and a time, and appends each request to access.log."""

import json
import sys
import uuid
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Orders(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with Path("access.log").open("a") as log:
            log.write(f"{self.path} {self.headers['X-Shop']} {self.headers['Content-Type']} {body.decode()}\n")
        total = sum(range(json.loads(body)["items"]))
        self.send(201, {"id": str(uuid.uuid4()), "created_at": str(datetime.now(UTC)), "total": total})

    def do_GET(self) -> None:
        with Path("access.log").open("a") as log:
            log.write(f"GET {self.path}\n")
        self.send(405, {})

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
