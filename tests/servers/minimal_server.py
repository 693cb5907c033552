"""Run test servers with the standard library, because importing a framework would take longer than a siege.

The servers fulfil the server contract: they answer pings, and report worker and timing in headers.
"""

import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from types import MappingProxyType

from common.options import Options
from common.server import ping_headers, task_headers
from common.task import TaskRun, perform

NOTHING: Mapping[str, str] = MappingProxyType({})
TaskOutcome = TaskRun | tuple[int, str]  # the run of the task, or the status and body to send instead
LongTask = Callable[[str], TaskOutcome]  # User-Agent of the client → outcome


def by_siege(client: str) -> bool:
    """Return whether the client is siege rather than the bench, according to its User-Agent."""
    return "Siege" in client


def handler(options: Options, long_task: LongTask, pong: Mapping[str, str] = NOTHING) -> type[BaseHTTPRequestHandler]:
    """Return a handler that answers `/` with the outcome of `long_task`, and all other paths as pings.

    `pong` has additional headers for the responses to pings.
    """

    class Handler(BaseHTTPRequestHandler):
        wbufsize = -1

        def do_GET(self) -> None:
            received_s = time.monotonic()
            if self.path != "/":
                self.respond(200, "pong", {**ping_headers(options), **pong})
            elif isinstance(outcome := long_task(self.headers.get("User-Agent", "")), TaskRun):
                self.respond(200, outcome.answer, task_headers(outcome, received_s))
            else:
                self.respond(*outcome, NOTHING)

        def respond(self, status: int, body: str, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    return Handler


def serve(
    options: Options,
    long_task: LongTask | None = None,
    *,
    threaded: bool = True,
    pong: Mapping[str, str] = NOTHING,
) -> None:
    """Serve `long_task` until killed; without it, serve the task in the options.

    If `threaded`, run a thread for each request; otherwise, handle one request at a time.
    """

    class Server(ThreadingHTTPServer if threaded else HTTPServer):
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            """Ignore clients that disconnect."""

    long_task = long_task or (lambda _: perform(options.task))
    Server((options.host, options.port), handler(options, long_task, pong)).serve_forever()
