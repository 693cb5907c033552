"""The bench's own clients send each request once, check headers, and keep connections only where users do."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import scripted_server
from command import invoke
from conftest import LIMIT_S
from scripted_server import Running, write_suite
from under_siege.subprocess_scripts.open_load import OpenLoad

from under_siege.drill.loaded_server import WRONG, Users
from under_siege.load.http_client import client
from under_siege.record.record import Recovery
from under_siege.suite.expected_response import Expectation

SERVED_BY = "/text/pong/header/X-Served-By/it"
HEADERS = pytest.mark.parametrize(("value", "outcome"), [("it", ""), ("another", WRONG)])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with scripted_server.running(tmp_path_factory.mktemp("server")) as started:
        yield started


def connections(server: Running, path: str) -> list[object]:
    """Return the connection of each request for this path."""
    return [request["connection"] for request in server.received() if request["path"] == path]


@pytest.mark.parametrize("keep_alive", [False, True])
def test_a_request_is_not_sent_again_if_the_connection_is_lost(server: Running, keep_alive: bool) -> None:
    async def go() -> None:
        async with client(keep_alive=keep_alive) as session:
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get(f"{server.url}/drop?{keep_alive}")

    asyncio.run(go())
    assert len(connections(server, f"/drop?{keep_alive}")) == 1


@HEADERS
def test_a_drill_checks_response_headers(server: Running, value: str, outcome: str) -> None:
    async def ask() -> str:
        async with client() as session:
            expected = Expectation(b"pong", 0.1, 0.1, headers=(("X-Served-By", value),))
            return await Users(session, server.url + SERVED_BY, expected, LIMIT_S).send()

    assert asyncio.run(ask()) == outcome


@HEADERS
def test_a_capacity_search_checks_response_headers(server: Running, value: str, outcome: str) -> None:
    async def ask() -> str:
        request = {"method": "GET", "headers": [], "body": "", "status": 200, "rule": {}, "answer": "cG9uZw=="}
        request |= {"stream": None, "events": [], "count": None, "url": server.url + SERVED_BY}
        order = {"keep_alive": False, "order": [0], "due_s": [], "users": 0, "headers": [["X-Served-By", value]]}
        async with client() as session:
            load = OpenLoad({**order, "requests": [request], "begin_s": time.monotonic()})
            return await load._outcome(session, load._requests[0], [])

    assert asyncio.run(ask()) == outcome


@pytest.mark.parametrize("keep_alive", [False, True])
def test_recovery_checks_never_reuse_connections_and_drill_users_do_only_with_keep_alive(
    server: Running, keep_alive: bool
) -> None:
    path = f"/text/pong?{keep_alive}"

    async def ask() -> None:
        async with client(keep_alive=keep_alive) as session, client() as fresh:
            crowd = Users(session, server.url + path, Expectation(b"pong", 0.1, 0.1), LIMIT_S, fresh)
            for _ in range(2):
                await crowd.send()
            for _ in range(2):
                await crowd.send_check(Recovery(), 0.0)

    asyncio.run(ask())
    first, second, *checks = connections(server, path)
    assert (first == second) is keep_alive
    assert len({second, *checks}) == 3


@pytest.mark.parametrize(
    "words", [["trace"], ["drill", "--fault", "slow", "--rounds", "1"], ["capacity", "--time", "5s"]], ids=str
)
def test_a_missing_response_header_causes_an_error_in_each_command(words: list[str], tmp_path: Path) -> None:
    write_suite(tmp_path, "/text/report", more="headers = { X-Served-By = 'nobody' }\n")
    ended = invoke(words[0], "suite.toml", *words[1:], "--quiet", folder=tmp_path)
    assert ended.returncode == 1
    assert "X-Served-By: nobody" in " ".join(ended.stdout.split())
