"""The HTTP client sends each request only once, so that lost requests are counted."""

import asyncio

import aiohttp
import pytest

from under_siege.load.http_client import HttpResponse, client


@pytest.mark.parametrize("keep_alive", [False, True])
def test_a_request_is_not_sent_again_if_the_connection_is_lost(keep_alive: bool) -> None:
    connections = []

    def disconnect(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        writer.transport.abort()

    async def go() -> None:
        async with (
            await asyncio.start_server(disconnect, "127.0.0.1", 0) as server,
            client(keep_alive=keep_alive) as session,
        ):
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")

    asyncio.run(go())
    assert len(connections) == 1


def test_a_binary_body_is_described_by_its_type() -> None:
    answer = HttpResponse(200, b"PK\x03\x04\x14\x00\xff", {"content-type": "application/zip"})
    assert answer.described() == "200 with 7 bytes of application/zip"
    assert HttpResponse(200, b"a\nb", {}).described() == "200 with 3 bytes 'a b'"
