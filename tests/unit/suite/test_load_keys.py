"""Load keys of suites: commands that generate their own load support or reject each key."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from command import invoke
from conftest import LIMIT_S, TESTS
from under_siege.subprocess_scripts.open_load import OpenLoad

from under_siege.drill.loaded_server import WRONG, Users
from under_siege.load.http_client import client
from under_siege.measure.plan import make_plan
from under_siege.record.record import Recovery
from under_siege.suite.expected_response import Expectation
from under_siege.suite.selection import CAPACITY, DRILL, RUN_TRACE, TRACE, refuse_unsupported, suite_of

SERVER = '[ping]\npath = "/ping"\n[servers.one]\ncommand = "serve {port}"\n'
LOCUST = '[load]\ntool = "locust"\n'
OF_OWN_LOAD = {CAPACITY, DRILL, TRACE}
REJECTED = {  # the suite, the key, and the commands that reject it
    "script": (LOCUST + 'script = "visit.py"\n' + SERVER, "load.script", OF_OWN_LOAD | {RUN_TRACE}),
    "options": (f'{LOCUST}options = ["--header=A:b"]\n{SERVER}', "load.options", OF_OWN_LOAD | {RUN_TRACE}),
    "jobs": ('[load]\ntool = "jobs"\npath = "/jobs"\n' + SERVER, "load.tool", OF_OWN_LOAD | {RUN_TRACE}),
    "files": ('[load]\ntool = "wrk"\npath = "/{file}"\nfiles = "."\n' + SERVER, "load.files", {CAPACITY, DRILL}),
    "check": ('[expect]\ncheck = "look {url}"\n' + SERVER, "expect.check", OF_OWN_LOAD),
    "warm-up": ("[load]\nwarm_up = 100\n" + SERVER, "load.warm_up", OF_OWN_LOAD),
    "warm-up of a server": (SERVER + 'warm_up = "2s"\n', "servers.one.warm_up", OF_OWN_LOAD),
    "warm-up of the ceiling": (
        f'{SERVER}[servers.top]\ncommand = "serve {{port}}"\nceiling = true\nwarm_up = 3\n',
        "servers.top.warm_up",
        OF_OWN_LOAD,
    ),
    "own network": (
        '[load]\nown_network = true\n[servers.one]\nurl = "http://127.0.0.1:8000"\n',
        "load.own_network",
        OF_OWN_LOAD | {RUN_TRACE},
    ),
}
SUPPORTED = {
    "amount of load": '[load]\ntool = "ab"\nusers = [3]\nrequests = 50\n' + SERVER,
    "duration of the load": '[load]\ntool = "wrk"\nthreads = 2\ntime = "9s"\n' + SERVER,
    "workers of Locust": f"{LOCUST}locust_workers = 2\n{SERVER}",
    "expected response": '[load]\npath = "/a?b=c"\nkeep_alive = [false, true]\n[expect]\nstatus = 404\nbody = "any"\n'
    + SERVER,
    "headers": SERVER + 'headers = { X-Served-By = "it" }\n',
    "no warm-up": "[load]\nown_network = 200\nwarm_up = 0\n" + SERVER,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "visit.py").write_text("def visit(user): ...\n")
    return tmp_path


@pytest.mark.parametrize("command", [CAPACITY, DRILL, TRACE, RUN_TRACE])
@pytest.mark.parametrize("name", REJECTED)
def test_an_unsupported_key_causes_a_one_line_error(name: str, command: str, folder: Path) -> None:
    text, key, commands = REJECTED[name]
    (folder / "shop.toml").write_text(text)
    if command not in commands:
        refuse_unsupported(command, suite_of([str(folder / "shop.toml")]))
        return
    what, *options = command.split()
    ended = invoke(what, "shop.toml", *options, folder=folder)
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert f"shop.toml: {key}: " in ended.stderr


@pytest.mark.parametrize("command", [CAPACITY, DRILL, TRACE, RUN_TRACE])
@pytest.mark.parametrize("name", SUPPORTED)
def test_supported_keys_are_accepted(name: str, command: str, folder: Path) -> None:
    (folder / "shop.toml").write_text(SUPPORTED[name])
    refuse_unsupported(command, suite_of([str(folder / "shop.toml")]))


def test_the_expected_response_has_the_headers_set_for_the_server(folder: Path) -> None:
    (folder / "shop.toml").write_text(
        f"{SERVER}headers = {{ X-Served-By = '{{size}}' }}\n[axes]\nsize = [1, 2]\n".replace(
            "serve {port}", "serve {port} {size}"
        )
    )
    plan = make_plan(suite_of([str(folder / "shop.toml")]), {"python": ["python3"]}, time_s=1, rounds=1)
    expectations = {case.work: Expectation(b"pong", 0.1, 0.1) for case in plan.cases}
    headers = [plan.expected_of(case, expectations).headers for case in plan.cases]
    assert headers == [(("X-Served-By", "1"),), (("X-Served-By", "2"),)]


@contextlib.asynccontextmanager
async def answering(connections: list[int]) -> AsyncIterator[str]:
    """Start a server that sends the header `X-Served-By: it` and counts the requests on each connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        number = len(connections) - 1
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                connections[number] += 1
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-Served-By: it\r\n\r\npong")
                await writer.drain()
                if b"connection: close" in request.lower():
                    break
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.mark.parametrize(("value", "outcome"), [("it", ""), ("another", WRONG)])
def test_a_drill_checks_response_headers(value: str, outcome: str) -> None:
    async def ask() -> str:
        async with answering([]) as url, client() as session:
            expected = Expectation(b"pong", 0.1, 0.1, headers=(("X-Served-By", value),))
            return await Users(session, url, expected, LIMIT_S).send()

    assert asyncio.run(ask()) == outcome


@pytest.mark.parametrize(("value", "outcome"), [("it", ""), ("another", WRONG)])
def test_a_capacity_search_checks_response_headers(value: str, outcome: str) -> None:
    async def ask() -> str:
        request = {"method": "GET", "headers": [], "body": "", "status": 200, "rule": {}, "answer": "cG9uZw=="} | {
            "stream": None,
            "events": [],
            "count": None,
        }
        order = {"keep_alive": False, "order": [0], "due_s": [], "users": 0, "headers": [["X-Served-By", value]]}
        async with answering([]) as url, client() as session:
            load = OpenLoad({**order, "requests": [{**request, "url": url}], "begin_s": time.monotonic()})
            return await load._outcome(session, load._requests[0], [])

    assert asyncio.run(ask()) == outcome


@pytest.mark.parametrize("keep_alive", [False, True])
def test_recovery_checks_never_reuse_connections_and_drill_users_do_only_with_keep_alive(keep_alive: bool) -> None:
    connections: list[int] = []

    async def ask() -> None:
        async with answering(connections) as url, client(keep_alive=keep_alive) as session, client() as fresh:
            crowd = Users(session, url, Expectation(b"pong", 0.1, 0.1), LIMIT_S, fresh)
            for _ in range(2):
                await crowd.send()
            for _ in range(2):
                await crowd.send_check(Recovery(), 0.0)

    asyncio.run(ask())
    assert connections == ([2, 1, 1] if keep_alive else [1, 1, 1, 1])


@pytest.mark.parametrize(
    "words", [["trace"], ["drill", "--fault", "slow", "--rounds", "1"], ["capacity", "--time", "5s"]], ids=str
)
def test_a_missing_response_header_causes_an_error_in_each_command(words: list[str], folder: Path) -> None:
    command = f"python {TESTS / 'suites' / 'shop' / 'app.py'} {{port}} plain"
    (folder / "shop.toml").write_text(
        '[load]\npath = "/report"\n[ping]\npath = "/health"\n'
        f"[servers.one]\ncommand = \"{command}\"\nheaders = {{ X-Served-By = 'nobody' }}\n"
    )
    ended = invoke(words[0], "shop.toml", *words[1:], "--quiet", folder=folder)
    assert ended.returncode == 1
    assert "no X-Served-By instead of X-Served-By: nobody" in " ".join(ended.stdout.split())
