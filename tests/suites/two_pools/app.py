"""Use two process pools in turn; each stays broken once its child is killed, and then every second request fails."""

import itertools
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CPU_S, WAIT_S = 0.01, 0.03


def report() -> bytes:
    """Use the CPU longer than the HTTP server does, and wait."""
    ends_s = time.process_time() + CPU_S
    while time.process_time() < ends_s:
        sum(range(500))
    time.sleep(WAIT_S)
    return b"a report"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        try:
            status, body = 200, next(pools).submit(report).result() if self.path == "/report" else b"healthy"
        except BrokenProcessPool:
            status, body = 500, b"the pool is broken"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128


if __name__ == "__main__":
    both = [ProcessPoolExecutor(1) for _ in range(2)]
    for pool in both:
        pool.submit(report).result()  # forks the child before there are threads
    pools = itertools.cycle(both)
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
