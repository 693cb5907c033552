"""Clients of a drill: users that send one request after the other, and connections that send no valid request."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Iterator

import aiohttp

from under_siege.errors import CaseFailedError
from under_siege.http_client import answer_of, raw_url
from under_siege.model.record import Recovery, Requests
from under_siege.monitors.ping import cancel
from under_siege.targets.expectation import Expectation

LOST, LATE, REFUSED, WRONG = "lost", "late", "refused", "wrong"
_LONGEST_ID = 40  # characters of a process id: the header may hold anything
PAUSE_S = 0.01  # pause of a user after a refused request, so that refusals don't become a flood
LIMIT_S = 2.0  # timeout of a connection, and of the answer to a malformed request
QUIET_S = 0.05  # a second answer would have come within this time
# Where one client keeps all others waiting, so many of them last; a server that answers to what is smuggled in has
# been seen to do so by then.
PATIENT, HASTY_S = 200, 0.002
MOST_BYTES = 65536  # bytes of an answer that are read
AT_ONCE = 64

_HIDDEN = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
_HEAD = b"POST /nowhere HTTP/1.1\r\nHost: x\r\n"

# Each is one request for an honest parser, or none at all; the second one in it is nobody's.
AMBIGUOUS = (
    _HEAD + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + _HIDDEN,
    _HEAD + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(_HIDDEN) + _HIDDEN,
    _HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + _HIDDEN,
    _HEAD + b"Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n" + _HIDDEN,
)
NO_HTTP = (
    b"\x00" * 64 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(48)),  # TLS
    b"GET\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nX\x00Y: 1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 70_000 + b"\r\n\r\n",
    b"GET /" + b"%ff" * 100 + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\r\n\r\n\r\n\r\n",
    b"G",
)
LARGE = b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"H%d: %b\r\n" % (number, b"v" * 1000) for number in range(1000))


class Users:
    """Send requests for one URL, and record the outcome of each.

    Args:
        fresh: a session that opens a connection for each request; None: `session` does so.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        expected: Expectation,
        patience_s: float,
        fresh: aiohttp.ClientSession | None = None,
    ) -> None:
        self._session, self._fresh, self._url = session, fresh or session, url
        self.expected, self._patience_s = expected, patience_s

    async def ask(self, requests: Requests | None = None, began_s: float = 0.0, patience_s: float | None = None) -> str:
        """Send one request and return its outcome."""
        sent_s = time.monotonic()
        outcome, _ = await self._outcome(self._session, patience_s or self._patience_s)
        if requests is not None:
            _append(requests, sent_s, began_s, outcome)
        return outcome

    async def check(self, recovery: Recovery, began_s: float) -> None:
        """Send one request of the recovery check and record its outcome and the process that answered."""
        sent_s = time.monotonic()
        outcome, process = await self._outcome(self._fresh, self._patience_s)
        _append(recovery, sent_s, began_s, outcome)
        recovery.process.append(process)

    async def _outcome(self, session: aiohttp.ClientSession, patience_s: float) -> tuple[str, str]:
        """Send a request; return its outcome and the id of the process that answered, if known."""
        timeout = aiohttp.ClientTimeout(total=patience_s)
        try:
            async with session.get(raw_url(self._url), timeout=timeout, allow_redirects=False) as response:
                answer = await answer_of(response, len(self.expected.answer))
                process = answer.headers.get("x-worker", "").partition("/")[0][:_LONGEST_ID]
                if not self.expected.problem(answer):
                    return "", process
                is_refused = answer.status == 503 and "retry-after" in answer.headers
                return (REFUSED if is_refused else WRONG), process
        except CaseFailedError:  # more bytes than expected
            return WRONG, ""
        except TimeoutError:
            return LATE, ""
        except (aiohttp.ClientError, ValueError, OSError):
            return LOST, ""

    @contextlib.asynccontextmanager
    async def asking(self, users: int, requests: Requests, began_s: float) -> AsyncIterator[None]:
        """Let so many users send one request after the other while the body runs."""

        async def user() -> None:
            while True:
                if await self.ask(requests, began_s):
                    await asyncio.sleep(PAUSE_S)

        tasks = [asyncio.create_task(user()) for _ in range(users)]
        try:
            yield
        finally:
            await cancel(tasks)


def _append(columns: Requests | Recovery, sent_s: float, began_s: float, outcome: str) -> None:
    columns.sent_s.append(round(sent_s - began_s, 6))
    columns.ended_s.append(round(time.monotonic() - began_s, 6))
    columns.outcome.append(outcome)


def malformed(count: int, seed: int) -> Iterator[tuple[bytes, bool]]:
    """Yield requests, each with whether a pong in its answer was smuggled."""
    choice = random.Random(seed)  # noqa: S311 (not for secrets)
    yield LARGE, False
    for number in range(count - 1):
        if number % 4 == 0:
            yield choice.choice(AMBIGUOUS), True
        elif number % 4 == 1:
            yield choice.randbytes(choice.randrange(1, 200)) + b"\r\n\r\n", False
        else:
            yield choice.choice(NO_HTTP), False


async def send_malformed(host: str, port: int, count: int, seed: int) -> tuple[int, int]:
    """Send malformed requests; return how many were sent, and how many answers contain a smuggled pong."""
    requests, sent, smuggled = enumerate(malformed(count, seed)), 0, 0

    async def sender() -> None:
        nonlocal sent, smuggled
        for number, (request, is_ambiguous) in requests:
            quiet_s = QUIET_S if number < PATIENT else HASTY_S
            answer = await _answer(host, port, request, quiet_s if is_ambiguous else None)
            sent += answer is not None
            smuggled += is_ambiguous and b"pong" in (answer or b"")

    await asyncio.gather(*(sender() for _ in range(AT_ONCE)))
    return sent, smuggled


async def _answer(host: str, port: int, request: bytes, quiet_s: float | None) -> bytes | None:
    """Return what is answered until the other side closes or is quiet; None if it accepts no connection.

    Args:
        quiet_s: how long it may say nothing more, if more might be asked for, so that a server that closes at an end
            has no reason to; None: nothing more will be.
    """
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return None
    answer = b""
    try:
        with contextlib.suppress(OSError, TimeoutError):
            writer.write(request)
            if quiet_s is None:
                writer.write_eof()
            while len(answer) < MOST_BYTES:
                async with asyncio.timeout(quiet_s if answer and quiet_s else LIMIT_S):
                    chunk = await reader.read(MOST_BYTES)
                if not chunk:
                    break
                answer += chunk
    finally:
        writer.transport.abort()
    return answer


@contextlib.asynccontextmanager
async def half_requests(host: str, port: int, count: int) -> AsyncIterator[None]:
    """Open connections that send half a request and stay while the body runs."""
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(count):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(LIMIT_S):
                    _, writer = await asyncio.open_connection(host, port)
                writers.append(writer)
                writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


async def ask_and_go(host: str, port: int, path: str, count: int, stay_s: float) -> None:
    """Let clients send a request, stay for so long, and disconnect without an answer."""
    writers = []
    for _ in range(count):
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(host, port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            writers.append(writer)
    await asyncio.sleep(stay_s)
    for writer in writers:
        writer.transport.abort()
