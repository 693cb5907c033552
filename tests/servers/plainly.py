"""What servers of the tests share that need nothing of a framework, whose import takes most of what such a siege takes.

No server itself. They keep the contract on the standard library: the ping, the headers that tell who has worked.
"""

from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from types import MappingProxyType

from common.options import Options
from common.responses import now_s, ping_headers, task_headers
from common.task import TaskRun, perform

NOTHING: Mapping[str, str] = MappingProxyType({})
ToolOutput = TaskRun | tuple[int, str]  # what came of the task, or a status and a body
LongTask = Callable[[str], ToolOutput]  # the task that is served, by the name that the client gives itself → the answer


def by_siege(client: str) -> bool:
    """Whether the load tool asks, and not the harness."""
    return "Siege" in client


def handler(options: Options, long_task: LongTask, pong: Mapping[str, str] = NOTHING) -> type[BaseHTTPRequestHandler]:
    """Answers `/` with what that function tells, and everything else as a ping, with those headers."""

    class Handler(BaseHTTPRequestHandler):
        wbufsize = -1

        def do_GET(self) -> None:
            received_s = now_s()
            if self.path != "/":
                self.tell(200, "pong", {**ping_headers(options), **pong})
            elif isinstance(told := long_task(self.headers.get("User-Agent", "")), TaskRun):
                self.tell(200, told.answer, task_headers(told, received_s))
            else:
                self.tell(*told, NOTHING)

        def tell(self, status: int, body: str, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    return Handler


def serve(
    options: Options,
    long_task: LongTask | None = None,
    *,
    threaded: bool = True,
    pong: Mapping[str, str] = NOTHING,
) -> None:
    """Serves that, or else the task, until it is killed: with a thread for each request, or one after the other."""

    class Server(ThreadingHTTPServer if threaded else HTTPServer):
        request_queue_size = 128

        def handle_error(self, *_: object) -> None:
            """Who has left."""

    long_task = long_task or (lambda _: perform(options.task))
    Server((options.host, options.port), handler(options, long_task, pong)).serve_forever()
