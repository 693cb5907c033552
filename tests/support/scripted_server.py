"""A server that does what the path of a request says, and logs each request.

`python scripted_server.py PORT [LOG]` starts it; `running` starts it for a test; `write_suite` writes a suite for it.
The steps of a path, from left to right:

    /slow/0.2               wait 0.2 s, with other requests meanwhile
    /queue/0.2              wait 0.2 s, one request at a time
    /block/0.2              block the event loop for 0.2 s
    /after/100/status/500   continue with the next step for all requests after the first 100, and end here until then
    /every/3/reset          continue with the next step for each third request, and end here for the others
    /tool/...               continue if the request comes from a load tool, and end here if it comes from the bench
    /status/404             respond with this status
    /bytes/1000             respond with a body of this size
    /text/TEXT              respond with this text
    /echo                   respond with the method, path, headers and body of the request, as JSON
    /gzip                   compress the response, with another time in each header, if the client accepts gzip
    /redirect/PATH          redirect to /PATH
    /cookie                 set a cookie
    /close                  close the connection after the response, and say so in its header
    /hang_up                the same without saying so
    /chunked                send the body in chunks
    /drop                   close the connection instead of responding
    /reset                  reset the connection instead of responding
    /never                  never respond
    /stream/20/0.05         send 20 server-sent events, with 0.05 s before each
    /stream/20/0.05/break/8 break this stream off after 8 events
    /endless/0.05           send events until the client disconnects

The default response is 200 with the text "ok". `GET /ping` gets "pong", and is not logged.
"""

import asyncio
import contextlib
import gzip
import itertools
import json
import socket
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

LOG = "received.jsonl"
times = itertools.count()
seen: Counter[str] = Counter()
turn = asyncio.Lock()


@dataclass
class Request:
    method: str
    path: str
    version: str
    headers: dict[str, str]
    body: bytes

    @property
    def is_from_the_bench(self) -> bool:
        return "under-siege" in self.headers.get("user-agent", "").lower() or "aiohttp" in self.headers.get(
            "user-agent", ""
        )


@dataclass
class Response:
    status: int = 200
    body: bytes = b"ok"
    headers: list[str] = field(default_factory=lambda: ["Content-Type: text/plain"])
    ending: str = ""  # drop, reset, never, hang_up or close
    is_chunked: bool = False
    events: int | None = None  # of a stream
    interval_s: float = 0.0
    break_after: int | None = None


async def read_request(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *lines = head.rstrip().split("\r\n")
    method, path, version = line.split()
    headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    if headers.get("expect", "").lower() == "100-continue":
        raise NotImplementedError("100-continue")
    return Request(method, path, version, headers, await reader.readexactly(int(headers.get("content-length", 0))))


async def respond(request: Request) -> Response:
    response = Response()
    path = request.path.partition("?")[0]
    seen[path] += 1
    number, steps = seen[path], iter(path.strip("/").split("/"))
    for step in steps:
        match step:
            case "slow":
                await asyncio.sleep(float(next(steps)))
            case "queue":
                async with turn:
                    await asyncio.sleep(float(next(steps)))
            case "block":
                time.sleep(float(next(steps)))  # noqa: ASYNC251 (blocks on purpose)
            case "after":
                if number <= int(next(steps)):
                    break
            case "every":
                if number % int(next(steps)):
                    break
            case "tool":
                if request.is_from_the_bench:
                    break
            case "status":
                response.status = int(next(steps))
            case "bytes":
                response.body = b"x" * int(next(steps))
            case "text":
                response.body = next(steps).encode()
            case "echo":
                told = {"method": request.method, "path": request.path, "headers": request.headers}
                response.body = json.dumps({**told, "body": request.body.decode("latin-1")}).encode()
            case "gzip":
                if "gzip" in request.headers.get("accept-encoding", ""):
                    response.body = gzip.compress(response.body, mtime=next(times))
                    response.headers.append("Content-Encoding: gzip")
            case "redirect":
                response.status = 302
                response.headers.append(f"Location: /{'/'.join(steps)}")
            case "cookie":
                response.headers.append("Set-Cookie: session=1; Path=/")
            case "close" | "hang_up" | "drop" | "reset" | "never":
                response.ending = step
            case "chunked":
                response.is_chunked = True
            case "stream":
                response.events, response.interval_s = int(next(steps)), float(next(steps))
            case "break":
                response.break_after = int(next(steps))
            case "endless":
                response.events, response.interval_s = sys.maxsize, float(next(steps))
            case "ping":
                response.body = b"pong"
            case "":
                pass
            case _:
                response.status, response.body = 404, b"unknown step: " + step.encode()
    return response


async def events(response: Response) -> AsyncIterator[bytes]:
    for number in range(response.events or 0):
        await asyncio.sleep(response.interval_s)
        if number == response.break_after:
            return
        yield b"data: %d\n\n" % number


async def send(request: Request, response: Response, writer: asyncio.StreamWriter) -> bool:
    """Send the response; return whether the connection stays open."""
    if response.ending == "never":
        await asyncio.Event().wait()
    if response.ending == "reset":
        socket_of = writer.get_extra_info("socket")
        socket_of.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if response.ending in ("drop", "reset"):
        return False
    wanted = request.headers.get("connection", "").lower()
    is_kept = "keep-alive" in wanted if request.version == "HTTP/1.0" else "close" not in wanted
    lines = [f"HTTP/1.1 {response.status} Because", *response.headers]
    if response.events is not None:
        lines[1] = "Content-Type: text/event-stream"
    is_chunked = response.is_chunked or response.events is not None
    lines.append("Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {len(response.body)}")
    if response.ending == "close" or not is_kept:
        lines.append("Connection: close")
    elif request.version == "HTTP/1.0":
        lines.append("Connection: keep-alive")
    writer.write("\r\n".join([*lines, "", ""]).encode())
    if response.events is not None:
        sent = 0
        async for event in events(response):
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await writer.drain()
            sent += 1
        if sent < response.events:
            return False
        writer.write(b"0\r\n\r\n")
    elif is_chunked:
        writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(response.body), response.body))
    elif request.method != "HEAD":
        writer.write(response.body)
    await writer.drain()
    return is_kept and response.ending not in ("close", "hang_up")


async def serve(port: int, log: Path | None) -> None:
    file = log.open("a", buffering=1) if log else None

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            is_open = True
            while is_open:
                request = await read_request(reader)
                if file and request.path != "/ping":
                    at = time.monotonic()
                    told = {"method": request.method, "path": request.path, "bench": request.is_from_the_bench}
                    body = request.body[:1000].decode("latin-1")
                    file.write(json.dumps({**told, "at": at, "headers": request.headers, "body": body}) + "\n")
                is_open = await send(request, await respond(request), writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port, backlog=512)
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
    """Return the logged requests: method, path, bench (whether the bench itself sent it), at, headers, body."""
    log = folder / LOG
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Running]:
    """Start the server on a free port, with its log in `folder`; kill it at the end."""
    command = [sys.executable, __file__, "0", str(folder / LOG)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Running(int(process.stdout.readline()), folder / LOG)
        finally:
            process.kill()


def write_suite(folder: Path, path: str, load: str = "users = 2", more: str = "") -> Path:
    """Write a suite that loads this path of the scripted server, which logs to `folder`; return its path.

    `load` has further keys of [load], and `more` further tables.
    """
    suite = folder / "suite.toml"
    suite.write_text(
        f'[load]\npath = "{path}"\n{load}\n[ping]\npath = "/ping"\n[servers.scripted]\n'
        f"command = '{sys.executable} {__file__} {{port}} {folder / LOG}'\n{more}"
    )
    return suite


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
