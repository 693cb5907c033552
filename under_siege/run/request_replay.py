"""Replay requests of a load tool, so that a server can't tell them apart, and read the answers.

Some tools only count answers. A server that recognizes their requests could send them anything.
"""

import asyncio
import contextlib
import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from under_siege.environments.tool_install import Tool
from under_siege.errors import CaseFailedError
from under_siege.http_client import MORE_BYTES, Answer
from under_siege.load_tools.tool import LoadSpec
from under_siege.paths import HOST
from under_siege.processes.managed_process import ManagedProcess
from under_siege.processes.process_output import Tail

FIRST_LIMIT_S = 10.0  # until a tool asks for the first time; 0.02 s is usual
IN_A_ROW = 3  # on one connection, where the tool keeps its own
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,9})\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReplayedRequest:
    """The bytes of a tool's request, and the place that they were sent to."""

    tool: str
    request: bytes
    asked: str  # host and port
    in_a_row: int = 1  # on one connection

    async def ask(self, url: str, limit_s: float, expected_bytes: int) -> Answer:
        """Send such requests in a row; return the last answer.

        Raises:
            CaseFailedError: nobody listens there, no answer in time, or something that isn't HTTP.
        """
        there, what = urlsplit(url), f"GET {url}, asked for as {self.tool} does"
        request = self.request.replace(self.asked.encode(), there.netloc.encode())
        target = (there.path or "/") + (f"?{there.query}" if there.query else "")
        request = re.sub(rb"\A(\S+) \S+", lambda found: found[1] + b" " + target.encode(), request, count=1)
        try:
            async with asyncio.timeout(limit_s):
                tls = there.scheme == "https"
                reader, writer = await asyncio.open_connection(there.hostname, there.port or 80 + 363 * tls, ssl=tls)
                with contextlib.closing(writer):
                    return await self._last(reader, writer, request, expected_bytes + MORE_BYTES)
        except ConnectionRefusedError as error:
            raise CaseFailedError("refused", f"{what}, was refused: {error.strerror}") from None
        except TimeoutError:
            raise CaseFailedError("no_answer", f"{what}, was not answered within {limit_s:.1f} s") from None
        except OSError as error:
            raise CaseFailedError("no_answer", f"{what}, was not answered: {error.strerror or error}") from None
        except (EOFError, ValueError, asyncio.LimitOverrunError):
            raise CaseFailedError("no_answer", f"{what}: what came was no answer") from None

    async def _last(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes, most_bytes: int
    ) -> Answer:
        writer.write(request)
        answer = await _answer(reader, most_bytes)
        with contextlib.suppress(ConnectionError, EOFError):  # as it may be closed, whatever the tool wants
            for _ in range(self.in_a_row - 1):
                writer.write(request)
                answer = await _answer(reader, most_bytes)
        return answer


async def _answer(reader: asyncio.StreamReader, most_bytes: int) -> Answer:
    first, *lines = (await reader.readuntil(_END)).decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    status = int(first.partition(" ")[2][:3])
    if status < 200:  # the answer is still to come
        return await _answer(reader, most_bytes)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = b"" if status in (204, 304) else await _body(reader, headers, most_bytes)
    return Answer(status, body, headers)


async def _body(reader: asyncio.StreamReader, headers: dict[str, str], most_bytes: int) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await _of_chunks(reader, most_bytes)
    length = int(headers.get("content-length", most_bytes))
    try:
        return await reader.readexactly(min(length, most_bytes))
    except asyncio.IncompleteReadError as cut:
        if "content-length" in headers:
            raise
        return cut.partial  # it ends with its connection


async def _of_chunks(reader: asyncio.StreamReader, most_bytes: int) -> bytes:
    body = bytearray()
    while (size := int((await reader.readline()).partition(b";")[0], 16)) and len(body) < most_bytes:
        body += await reader.readexactly(min(size, most_bytes))
        await reader.readline()
    while (await reader.readline()).strip():
        pass  # headers that come behind
    return bytes(body)


class RequestReplays:
    """Of one tool, which asks in one way where it keeps its connections, and in another where it does not."""

    def __init__(self, tool: Tool) -> None:
        self._tool = tool
        self._seen: dict[bool, ReplayedRequest] = {}

    async def of(self, order: LoadSpec) -> ReplayedRequest | None:
        """Return the tool's request; None if the tool, or a script, checks answers itself.

        Raises:
            CaseFailedError: it does not ask.
        """
        if not self._tool.driver.is_replayed:
            return None
        if order.keep_alive not in self._seen:
            self._seen[order.keep_alive] = await _captured(self._tool, order)
        return self._seen[order.keep_alive]


async def _captured(tool: Tool, order: LoadSpec) -> ReplayedRequest:
    """Let the tool send a request to a socket of ours."""
    seen: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(ConnectionError, EOFError, asyncio.LimitOverrunError):
            request = await reader.readuntil(_END)
            length = _LENGTH.search(request)
            request += await reader.readexactly(int(length[1]) if length else 0)
            if not seen.done():
                seen.set_result(request)

    async with await asyncio.start_server(listen, HOST, 0) as listening:
        asked = f"{HOST}:{listening.sockets[0].getsockname()[1]}"
        requests = None if order.requests is None else 1
        alone = replace(order, users=1, threads=1, requests=requests, url=f"http://{asked}/", paths=())
        process = ManagedProcess(tool.command(alone), environment=tool.environment(), may_hide=False)
        tails = Tail(process.process.stdout), Tail(process.process.stderr)
        try:
            request = await asyncio.wait_for(seen, FIRST_LIMIT_S)
        except TimeoutError:
            said = tails[1].text() or tails[0].text()
            why = f"{tool.driver.name} does not ask; it says: {said[-200:]!r}"
            raise CaseFailedError(f"{tool.driver.name}_failed", why) from None
        finally:
            await process.stop(grace_s=0)
    return ReplayedRequest(tool.driver.name, request, asked)
