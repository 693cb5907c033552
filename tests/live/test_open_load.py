"""The load generator of the capacity search, with a server that answers with a given status."""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from under_siege.paths import script

ENOUGH = 12  # number of responses to wait for


def outcomes_of(status: int, users: int) -> tuple[Counter[str], int]:
    """Return the outcomes of the responses, and the largest number of requests that were in progress at once."""
    inside, most = [0], [0]
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.05)
            with lock:
                inside[0] -= 1
            self.send_response(status)
            self.send_header("Content-Length", "4")
            self.end_headers()
            self.wfile.write(b"pong")

        def log_message(self, *_: object) -> None: ...

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Ignore clients that have left."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            lines = lines_of_generator(f"http://127.0.0.1:{server.server_port}/", users)
        finally:
            server.shutdown()
    return Counter(line.split(",")[3] for line in lines[:ENOUGH]), most[0]


def lines_of_generator(url: str, users: int) -> list[str]:
    request = {"url": url, "method": "GET", "headers": [], "body": "", "status": 200, "rule": {}, "answer": "cG9uZw=="}
    request |= {"stream": None, "events": [], "count": None}
    order = {"requests": [request], "order": [0], "keep_alive": False, "headers": [], "users": users}
    order |= {"begin_s": time.monotonic(), "due_s": [] if users else [0.0] * ENOUGH}
    command = [sys.executable, *script("open_load")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        lines = [process.stdout.readline().strip() for _ in range(ENOUGH)]
        process.stdin.close()
        process.stdout.read()
    assert process.returncode == 0
    return lines


@pytest.mark.parametrize(
    ("status", "outcome"), [(200, ""), (503, "refused"), (429, "limited"), (404, "wrong"), (500, "wrong")]
)
def test_refusals_rate_limits_and_wrong_responses_have_different_outcomes(status: int, outcome: str) -> None:
    outcomes, _ = outcomes_of(status, users=3)
    assert outcomes == {outcome: ENOUGH}


def test_users_in_a_closed_loop_wait_for_each_response() -> None:
    _, most = outcomes_of(200, users=3)
    assert most == 3


def test_an_open_loop_does_not_wait_for_responses() -> None:
    _, most = outcomes_of(200, users=0)
    assert most > 3
