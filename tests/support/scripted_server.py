"""A server that does what the path of a request says, and logs each request.

`python scripted_server.py PORT [LOG]` starts it; `running` starts it for a test; `write_suite` writes a suite for it.
The steps of a path, from left to right; a later step replaces what an earlier one set:

    /slow/0.2               wait 0.2 s, with other requests meanwhile
    /queue/0.2              wait 0.2 s, one request at a time
    /block/0.2              block the event loop for 0.2 s
    /keep/1000              keep 1000 more bytes in memory
    /after/100/status/500   continue with the next step for all requests after the first 100, and end here until then
    /every/3/reset          continue with the next step for each third request, and end here for the others
    /kept/...               continue if the connection has had a request before, and end here for its first request
    /tool/...               continue if the request comes from a load tool, and end here if it comes from the bench,
                            which includes its own client, even if that generates the load
    /status/404             respond with this status
    /bytes/1000             respond with a body of this size
    /text/TEXT              respond with this text
    /echo                   respond with the method, path, number, headers and body of the request, as JSON
    /digest                 respond with the SHA-256 of the request's body
    /print                  print the headers of the request to stderr
    /header/NAME/VALUE      send this header
    /gzip                   compress the response, with another time in each header, if the client accepts gzip
    /redirect/PATH          redirect to /PATH
    /job/PATH               accept a job, whose result is at /PATH
    /cookie                 set a cookie
    /close                  close the connection after the response, and say so in its header
    /hang_up                the same without saying so
    /chunked                send the body in chunks
    /drop                   close the connection instead of responding
    /reset                  reset the connection instead of responding
    /never                  never respond
    /exit/3                 end the server's process with this status
    /stream/20/0.05         send 20 server-sent events, with 0.05 s before each
    /chat/20/0.05           the same in the format of OpenAI; the first event names the role, and has no text
    /lines/20/0.05          send 20 lines of JSON in the same way
    /pause/8/0.7            wait 0.7 s more before event 8 of this stream, counted from 0
    /break/8                break this stream off after 8 events
    /endless/0.05           send events until the client disconnects

The default response is 200 with the text "ok". `GET /ping` gets "pong", and is not logged. Requests are counted by
path, without the query, and those of the bench itself count, too. A connection stays open if the client wants it, also
with HTTP/1.0. A path that makes no sense gets 404.
"""

import asyncio
import contextlib
import gzip
import hashlib
import itertools
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

LOG = "received.jsonl"
LOGGED = 1000  # bytes of a body
COOKIE = "session=1; Path=/; Expires=Wed, 21 Oct 2037 07:28:00 GMT"
LAST_CHUNK = b"0\r\n\r\n"
WITHOUT_BODY = {*range(100, 200), 204, 304}
times, connections = itertools.count(), itertools.count()
seen: Counter[str] = Counter()
turn = asyncio.Lock()
kept: list[bytes] = []


@dataclass
class Request:
    method: str
    path: str
    version: str
    headers: dict[str, str]
    body: bytes
    at: float
    connection: int
    is_first: bool  # on its connection
    number: int  # among the requests for its path

    @property
    def is_from_the_bench(self) -> bool:
        return "aiohttp" in self.headers.get("user-agent", "")

    @property
    def wants_to_stay(self) -> bool:
        wanted = self.headers.get("connection", "").lower()
        return "keep-alive" in wanted if self.version == "HTTP/1.0" else "close" not in wanted

    def told(self) -> dict[str, object]:
        """Return what the log says about the request."""
        return {
            "method": self.method,
            "path": self.path,
            "bench": self.is_from_the_bench,
            "at": self.at,
            "connection": self.connection,
            "number": self.number,
            "headers": self.headers,
            "body": self.body[:LOGGED].decode("latin-1"),
            "sha256": hashlib.sha256(self.body).hexdigest() if self.body else "",
        }


@dataclass
class Response:
    status: int = 200
    body: bytes = b"ok"
    headers: list[str] = field(default_factory=list)
    content_type: str = "text/plain"
    ending: str = ""  # drop, reset, never, hang_up or close
    is_chunked: bool = False
    events: int | None = None  # of a stream
    is_chat: bool = False  # whether they are those of OpenAI's chat completions
    interval_s: float = 0.0
    pauses_s: dict[int, float] = field(default_factory=dict)
    break_after: int | None = None


async def read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: int, *, is_first: bool
) -> Request:
    """Read one request; raise ValueError if this server does not understand it."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.rstrip().split("\r\n")
    method, path, version = line.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    if "transfer-encoding" in headers:
        raise ValueError("a request in chunks")
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    seen[path.partition("?")[0]] += 1
    number = seen[path.partition("?")[0]]
    return Request(method, path, version, headers, body, time.monotonic(), connection, is_first, number)


async def respond(request: Request) -> Response:
    path = request.path.partition("?")[0]
    try:
        return await response_to(request, deque(map(unquote, path.strip("/").split("/"))))
    except (IndexError, ValueError) as error:
        return Response(404, f"{path}: {error}".encode())


async def response_to(request: Request, steps: deque[str]) -> Response:
    response = Response()
    while steps:
        match step := steps.popleft():
            case "slow":
                await asyncio.sleep(float(steps.popleft()))
            case "queue":
                async with turn:
                    await asyncio.sleep(float(steps.popleft()))
            case "block":
                time.sleep(float(steps.popleft()))  # noqa: ASYNC251 (blocks on purpose)
            case "keep":
                kept.append(b"x" * int(steps.popleft()))
            case "after":
                if request.number <= int(steps.popleft()):
                    break
            case "every":
                if request.number % int(steps.popleft()):
                    break
            case "kept":
                if request.is_first:
                    break
            case "tool":
                if request.is_from_the_bench:
                    break
            case "status":
                response.status = int(steps.popleft())
            case "bytes":
                response.body = b"x" * int(steps.popleft())
            case "text":
                response.body = steps.popleft().encode()
            case "echo":
                told: dict[str, object] = {"method": request.method, "path": request.path, "headers": request.headers}
                told |= {"body": request.body.decode("latin-1"), "number": request.number}
                response.body = json.dumps(told).encode()
                response.content_type = "application/json"
            case "digest":
                response.body = hashlib.sha256(request.body).hexdigest().encode()
            case "print":
                print(json.dumps(request.headers), file=sys.stderr, flush=True)
            case "header":
                response.headers.append(f"{steps.popleft()}: {steps.popleft()}")
            case "gzip":
                if "gzip" in request.headers.get("accept-encoding", ""):
                    response.body = gzip.compress(response.body, 6, mtime=next(times))
                    response.headers.append("Content-Encoding: gzip")
            case "redirect" | "job":
                response.status = 302 if step == "redirect" else 202
                response.headers.append(f"Location: /{'/'.join(steps)}")
                break
            case "cookie":
                response.headers.append(f"Set-Cookie: {COOKIE}")
            case "close" | "hang_up" | "drop" | "reset" | "never":
                response.ending = step
            case "chunked":
                response.is_chunked = True
            case "stream" | "chat" | "lines" | "endless":
                response.events = sys.maxsize if step == "endless" else int(steps.popleft())
                response.interval_s = float(steps.popleft())
                response.is_chat = step == "chat"
                response.content_type = "application/x-ndjson" if step == "lines" else "text/event-stream"
            case "pause":
                before = int(steps.popleft())
                response.pauses_s[before] = float(steps.popleft())
            case "break":
                response.break_after = int(steps.popleft())
            case "exit":
                os._exit(int(steps.popleft()))
            case "ping":
                response.body = b"pong"
            case "":
                pass
            case _:
                raise ValueError(f"unknown step {step}")
    return response


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


async def events(response: Response) -> AsyncIterator[bytes]:
    for number in range(response.events or 0):
        await asyncio.sleep(response.interval_s + response.pauses_s.get(number, 0))
        if number == response.break_after:
            return
        if response.is_chat:
            delta = {"content": f"{number} "} if number else {"role": "assistant", "content": ""}
            yield b"data: %s\n\n" % json.dumps({"choices": [{"delta": delta}]}).encode()
            continue
        yield b'{"n": %d}\n' % number if "json" in response.content_type else b"data: %d\n\n" % number


async def send(request: Request, response: Response, writer: asyncio.StreamWriter) -> bool:
    """Send the response; return whether the connection stays open."""
    if response.ending == "reset":
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    if response.ending in ("drop", "reset"):
        return False
    is_stream, has_body = response.events is not None, response.status not in WITHOUT_BODY
    has_unknown_length = (is_stream or response.is_chunked) and has_body
    is_chunked = has_unknown_length and request.version != "HTTP/1.0"  # otherwise, its end is that of the connection
    is_kept = request.wants_to_stay and response.ending != "close" and is_chunked == has_unknown_length
    lines = [f"HTTP/1.1 {response.status} Because", f"Content-Type: {response.content_type}", *response.headers]
    if is_chunked:
        lines.append("Transfer-Encoding: chunked")
    elif has_body and not has_unknown_length:
        lines.append(f"Content-Length: {len(response.body)}")
    if request.version == "HTTP/1.0" or not is_kept:
        lines.append(f"Connection: {'keep-alive' if is_kept else 'close'}")
    head = "\r\n".join([*lines, "", ""]).encode()
    if request.method == "HEAD" or not has_body:
        writer.write(head)
    elif is_stream:
        writer.write(head)
        if not await send_events(response, writer, is_chunked=is_chunked):
            return False
    else:
        writer.write(head + (chunk(response.body) + LAST_CHUNK if is_chunked else response.body))
    await writer.drain()
    return is_kept and response.ending != "hang_up"


async def send_events(response: Response, writer: asyncio.StreamWriter, *, is_chunked: bool) -> bool:
    """Send the events of a stream; return whether it was complete."""
    sent = 0
    async for event in events(response):
        writer.write(chunk(event) if is_chunked else event)
        await writer.drain()
        sent += 1
    if sent == response.events and is_chunked:
        writer.write(LAST_CHUNK)
    return sent == response.events


async def serve(port: int, log: Path | None) -> None:
    file = log.open("a", buffering=1) if log else None

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, is_open, is_first = next(connections), True, True
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            while is_open:
                try:
                    request = await read_request(reader, writer, number, is_first=is_first)
                except ValueError:
                    writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    break
                is_first = False
                if file and request.path != "/ping":
                    file.write(json.dumps(request.told()) + "\n")
                response = await respond(request)
                if response.ending == "never":
                    await reader.read()  # until the client disconnects
                    break
                is_open = await send(request, response, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


@dataclass(frozen=True)
class Running:
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def received(self) -> list[dict[str, object]]:
        return received(self.log.parent)


def received(folder: Path) -> list[dict[str, object]]:
    """Return the logged requests in the order in which they arrived.

    Their keys are method, path, number (among the requests for this path), bench (whether the bench itself sent it), at
    (on the monotonic clock), connection (a number), headers, body (its beginning), and sha256 (of the body, if any).
    """
    log = folder / LOG
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Running]:
    """Start the server on a free port, with its log in `folder`; kill it at the end."""
    command = [sys.executable, __file__, "0", str(folder / LOG)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Running(int(process.stdout.readline()), folder / LOG)
        finally:
            process.kill()


def write_suite(
    folder: Path, path: str | Mapping[str, str] | Sequence[object], load: str = "users = 2", more: str = ""
) -> Path:
    """Write a suite that loads this path of the scripted server, which logs to `folder`; return its path.

    `path` may also have several servers by name, each with the path that it gets, or a list of the requests of a mix.
    `load` has further keys of [load], and `more` further tables.
    """
    suite, command = folder / "suite.toml", f"'{sys.executable} {__file__} {{port}} {folder / LOG}'"
    servers = f"[servers.scripted]\ncommand = {command}\n"
    if isinstance(path, str):
        load += f'\npath = "{path}"'
    elif isinstance(path, Mapping):
        tables = (f'[servers.{name}]\ncommand = {command}\npath = "{one}"\n' for name, one in path.items())
        servers = "".join(tables)
    else:
        (folder / "requests.jsonl").write_text("".join(f"{json.dumps(request)}\n" for request in path))
        load += '\nrequests_file = "requests.jsonl"'
    suite.write_text(f'[load]\n{load}\n[ping]\npath = "/ping"\n{servers}{more}')
    return suite


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
