"""Replay requests of a load tool byte for byte, and read the responses.

Some tools only count responses. A server that recognizes requests of these tools could send wrong responses unnoticed.
"""

import asyncio
import contextlib
import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import h11

from under_siege.host.installed_tool import Tool
from under_siege.host.managed_process import ManagedProcess, Tail
from under_siege.load.http_client import MORE_BYTES, HttpResponse, read_raw_response
from under_siege.load.request import Request
from under_siege.load.tool import LoadSpec
from under_siege.paths import HOST
from under_siege.record.record import CaseFailedError

FIRST_LIMIT_S = 10.0  # timeout for capturing the requests of a tool, which usually takes 0.02 s
IN_A_ROW = 3  # number of requests on one connection, if the tool uses keep-alive
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
_LAST_ANSWER = _ANSWER.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,9})\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReplayedRequest:
    """The bytes of a tool's requests, and the host and port to which the tool sent them."""

    tool: str
    requests: tuple[bytes, ...]  # one request, or the requests of a mix
    address: str
    in_a_row: int = 1  # number of requests on one connection
    must_stay_open: bool = False  # whether the case fails if the server closes the connection between them

    async def ask(self, url: str, limit_s: float, expected_bytes: int, number: int = 0) -> HttpResponse:
        """Send request `number` repeatedly (`in_a_row` times) on one connection, and return the last response.

        Raises:
            CaseFailedError: nothing listens, there is no response in time, the response is malformed, or the
                connection is closed and must stay open.
        """
        sent, parts = self.requests[number], urlsplit(url)
        what = f"{sent.partition(b' ')[0].decode(errors='replace')} {url}, sent as {self.tool} sends it"
        target, tls = (parts.path or "/") + (f"?{parts.query}" if parts.query else ""), parts.scheme == "https"
        request = sent.replace(self.address.encode(), parts.netloc.encode())
        request = re.sub(rb"\A(\S+) \S+", lambda match: match[1] + b" " + target.encode(), request, count=1)
        try:
            async with asyncio.timeout(limit_s):
                port = parts.port or (443 if tls else 80)
                reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=tls)
                with contextlib.closing(writer):
                    return await self._last_answer(reader, writer, request, expected_bytes + MORE_BYTES)
        except ConnectionRefusedError as error:
            raise CaseFailedError("refused", f"{what}, was refused: {error.strerror}") from None
        except TimeoutError:
            raise CaseFailedError("no_answer", f"{what}, was not answered within {limit_s:.1f} s") from None
        except OSError as error:
            raise CaseFailedError("no_answer", f"{what}, was not answered: {error.strerror or error}") from None
        except (EOFError, h11.RemoteProtocolError):
            raise CaseFailedError("no_answer", f"{what}: the response is incomplete or not HTTP") from None

    async def _last_answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, most_bytes: int
    ) -> HttpResponse:
        method = request.partition(b" ")[0].decode("latin-1")
        writer.write(request)
        answer = await read_raw_response(reader, method, most_bytes)
        try:
            for _ in range(self.in_a_row - 1):
                writer.write(request)
                answer = await read_raw_response(reader, method, most_bytes)
        except (ConnectionError, EOFError):  # the server may close the connection
            if self.must_stay_open:
                raise CaseFailedError(
                    "closed_connections",
                    f"the server closes each connection, so every second request of {self.tool} would fail, because "
                    f'{self.tool} sends it on the closed one; set keep_alive = false, or tool = "wrk"',
                ) from None
        return answer


class RequestReplays:
    """Capture the requests of one tool, once with keep-alive and once without, when they are first needed."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._captured: dict[bool, ReplayedRequest] = {}

    async def of(self, spec: LoadSpec) -> ReplayedRequest | None:
        """Return the captured requests of the tool, or None if the tool or its script checks responses itself.

        Raises:
            CaseFailedError: the tool sends no request.
        """
        if not self._tool.driver.is_replayed:
            return None
        if spec.keep_alive not in self._captured:
            self._captured[spec.keep_alive] = await _capture(self._tool, spec)
        return self._captured[spec.keep_alive]


async def _capture(tool: Tool, spec: LoadSpec) -> ReplayedRequest:
    """Run the tool against a socket of the bench, and return its requests."""
    count, captured = len(spec.mix) or 1, list[bytes]()
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    listeners = set[asyncio.Task[object] | None]()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listeners.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, EOFError, asyncio.LimitOverrunError):
            while len(captured) < count:
                captured.append(await _next_request(reader))
                if len(captured) == count:
                    listening.close()  # otherwise, the tool would connect again
                    if not done.done():
                        done.set_result(None)
                    break
                writer.write(_ANSWER if spec.keep_alive else _LAST_ANSWER)
                if not spec.keep_alive:
                    break
        with contextlib.suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    async with await asyncio.start_server(listen, HOST, 0) as listening:
        address = f"{HOST}:{listening.sockets[0].getsockname()[1]}"
        requests, order = None if spec.requests is None else count, tuple(range(len(spec.mix)))
        alone = replace(spec, users=1, threads=1, requests=requests, url=f"http://{address}/", paths=(), order=order)
        process = ManagedProcess(tool.command(alone), environment=tool.environment(), may_hide=False)
        stdout, stderr = Tail(process.process.stdout), Tail(process.process.stderr)
        try:
            await asyncio.wait_for(done, FIRST_LIMIT_S)
        except TimeoutError:
            said = stderr.text() or stdout.text()
            why = f"{tool.driver.name} sent no request; its output: {said[-200:]!r}"
            raise CaseFailedError(f"{tool.driver.name}_failed", why) from None
        finally:
            await process.stop(grace_s=0)
            await asyncio.gather(*filter(None, listeners))
    sent = [next((one for one in captured if _is_like(one, *each)), captured[0]) for each in spec.mix]
    return ReplayedRequest(tool.driver.name, tuple(sent or captured[:1]), address)


async def _next_request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(_END)
    length = _LENGTH.search(head)
    return head + await reader.readexactly(int(length[1]) if length else 0)


def _is_like(sent: bytes, path: str, request: Request) -> bool:
    """Return whether the bytes are this request of a mix. The order may differ: wrk sends the second request first."""
    return sent.startswith(f"{request.method} {path} ".encode()) and sent.partition(_END)[2] == request.body
