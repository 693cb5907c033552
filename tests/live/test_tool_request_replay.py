"""Replayed requests: the bench sends the load tool's own requests to detect servers that treat the tool differently."""

import asyncio
import contextlib
import errno
from collections.abc import AsyncIterator
from dataclasses import replace
from unittest.mock import Mock

import pytest
from conftest import wait_until
from load_specs import load_spec
from load_tool_checks import needed

from under_siege.host.programs import isolated_tool
from under_siege.load import DRIVERS, http_client
from under_siege.measure.warm_up import REQUESTS_ON_A_CONNECTION, ReplayedRequest, RequestReplays
from under_siege.record.record import CaseFailedError

ASK = ReplayedRequest("ab", (b"GET / HTTP/1.0\r\nHost: here\r\n\r\n",), "here")
SENT = [
    (name, keep_alive)
    for name, driver in DRIVERS.items()
    for keep_alive in (False, True)
    if driver.is_replayed and not driver.refusal(load_spec(2, 1.0, "http://127.0.0.1", keep_alive=keep_alive))
]
RIGHT = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
KEPT = RIGHT.replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n")


@contextlib.asynccontextmanager
async def answering(answers: list[bytes], seen: list[bytes]) -> AsyncIterator[str]:
    """Start a server that sends these responses on each connection and stores all requests in `seen`; yield its URL."""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(EOFError, ConnectionError):
            for answer in answers:
                seen.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer)

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(("name", "keep_alive"), SENT)
def test_replayed_requests_equal_those_of_the_load_tool(name: str, keep_alive: bool) -> None:
    needed(name)

    async def both() -> tuple[bytes, bytes]:
        seen: list[bytes] = []
        with isolated_tool(DRIVERS[name]) as tool:
            async with answering([RIGHT], seen) as url:
                order = load_spec(
                    2, 1.0, f"{url}/some/path?one=1&two=2", 2 if name == "ab" else None, keep_alive=keep_alive
                )
                process = await asyncio.create_subprocess_exec(
                    *tool.command(order), env=tool.environment(), stdout=asyncio.subprocess.DEVNULL
                )
                await asyncio.to_thread(wait_until, lambda: bool(seen))
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
                of_the_tool = seen[0]
                seen.clear()
                asks = await RequestReplays(tool).of(order)
                assert asks is not None
                assert (await asks.ask(order.url, 10.0)).body == b"hello"
                return of_the_tool, seen[-1]

    of_the_tool, ours = asyncio.run(both())
    assert sorted(ours.split(b"\r\n")) == sorted(of_the_tool.split(b"\r\n"))  # wrk varies the order of its headers
    assert b" /some/path?one=1&two=2 HTTP/1." in ours


def read_body(answers: list[bytes], like: ReplayedRequest = ASK, limit_s: float = 10.0) -> bytes:
    """Return the body that a replayed request reads from these responses."""

    async def ask() -> bytes:
        async with answering(answers, []) as url:
            return (await like.ask(url, limit_s)).body

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
        b"",
    ],
)
def test_malformed_responses_are_rejected(answer: bytes) -> None:
    with pytest.raises(CaseFailedError, match="incomplete or not HTTP"):
        read_body([answer])


@pytest.mark.parametrize("length", [b"Content-Length: 99999999", b"Transfer-Encoding: chunked", b"X: y"])
def test_reading_an_endless_response_ends_but_not_before_the_limit(
    length: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "MOST_BODY_BYTES", most_bytes := 4_000_000)
    chunks = b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n" if b"chunked" in length else b"x" * 0xFFFF
    endless = b"HTTP/1.1 200 OK\r\n" + length + b"\r\n\r\n" + (most_bytes // 0xFFFF + 9) * chunks
    with pytest.raises(CaseFailedError, match="more than 4 MB"):
        read_body([endless + b"0\r\n\r\n"])
    assert len(read_body([b"HTTP/1.1 200 OK\r\nContent-Length: 4000000\r\n\r\n" + b"x" * most_bytes])) == most_bytes


def test_timeouts_and_refused_connections_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CaseFailedError, match="not answered within"):
        read_body([b"HTTP/1.1 100 Continue\r\n\r\n", RIGHT], limit_s=0.1)
    with pytest.raises(CaseFailedError, match="was refused"):
        asyncio.run(ASK.ask("http://127.0.0.1:1", 10.0))
    error = OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
    monkeypatch.setattr(asyncio, "open_connection", Mock(side_effect=error))
    with pytest.raises(CaseFailedError, match="was not answered: Cannot assign requested address"):
        asyncio.run(ASK.ask("http://127.0.0.1:1", 10.0))


def test_the_last_response_is_checked_even_if_the_connection_closes_early() -> None:
    in_a_row = replace(ASK, in_a_row=REQUESTS_ON_A_CONNECTION)
    assert read_body([KEPT, KEPT, KEPT.replace(b"hello", b"wrong")], in_a_row) == b"wrong"
    assert read_body([RIGHT], in_a_row) == b"hello"


def test_the_bench_says_why_ab_would_wait_for_connections_that_stay_open_unannounced() -> None:
    twice = replace(ASK, in_a_row=2)
    assert read_body([KEPT, KEPT], twice) == b"hello"
    with pytest.raises(CaseFailedError, match="without announcing it"):
        read_body([RIGHT, RIGHT], twice)
    of_wrk = replace(twice, requests=(ASK.requests[0].replace(b"HTTP/1.0", b"HTTP/1.1"),))
    assert read_body([RIGHT, RIGHT], of_wrk) == b"hello"
