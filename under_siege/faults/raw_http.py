"""What strangers send: half a request, requests that are no HTTP, and such as two parsers read differently."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator

LIMIT_S = 2.0  # for a connection, and for the answer to a malformed request
QUIET_S = 0.05  # after an answer: a second one would have come by then
# Where one client keeps all others waiting, so many of them last; a server that answers to what is smuggled in has
# been seen to do so by then.
PATIENT, HASTY_S = 200, 0.002
MOST_BYTES = 65536  # of it that are read
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
