"""The bench's own clients check headers, keep connections where users do, and repeat hardly any request."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
import scripted_server
from command import invoke
from conftest import LIMIT_S
from load_specs import load_spec
from load_tool_checks import output_of, told_by_client
from scripted_server import Running, write_suite

from under_siege.drill.loaded_server import Users
from under_siege.host.programs import isolated_tool
from under_siege.load import DRIVERS
from under_siege.load.body_rule import ANY, FIELDS, JSON, BodyRule
from under_siege.load.http_client import client
from under_siege.load.request import Request, RightAnswer
from under_siege.record.record import Incident
from under_siege.record.requests import Requests
from under_siege.suite.expected_response import Expectation

SERVED_BY = "/text/pong/header/X-Served-By/it"
HEADERS = pytest.mark.parametrize(("value", "outcome"), [("it", "correct"), ("another", "wrong")])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with scripted_server.running(tmp_path_factory.mktemp("server")) as started:
        yield started


def connections(server: Running, path: str) -> list[object]:
    """Return the connection of each request for this path."""
    return [request["connection"] for request in server.received() if request["path"] == path]


def load(url: str, right: RightAnswer, count: int = 1, users: int = 1, **keys: object) -> tuple[Requests, int]:
    """Let the client send so many requests; return a row for each, and how many of them it repeated."""
    with isolated_tool(DRIVERS["client"]) as tool:
        rows, told = told_by_client(output_of(tool, load_spec(users, 1.0, url, count, rights=(right,), **keys)))
    assert len(rows) == count
    return rows, told.reconnected


OK, NONE = RightAnswer(answer=b"ok"), RightAnswer()


@pytest.mark.parametrize(("method", "right"), [("GET", OK), ("HEAD", NONE)])
def test_a_safe_request_is_repeated_if_the_server_has_closed_the_idle_connection(
    server: Running, method: str, right: RightAnswer
) -> None:
    """The server closes each connection instead of responding to its second request."""
    path = f"/kept/drop?{method}"
    rows, reconnected = load(server.url + path, right, 4, keep_alive=True, request=Request(method))
    assert (rows.outcome, reconnected) == (["correct"] * 4, 3)
    sent = connections(server, path)
    assert len(sent) == len(rows) + reconnected
    assert len({*sent}) == 4


NOT_REPEATED = {
    "unsafe": ("/kept/drop?unsafe", Request("POST"), True),
    "new": ("/drop?new", Request(), True),
    "new, without keep-alive": ("/drop?closed", Request(), False),
    "answered in part": ("/kept/stream/20/0.01/break/5", Request(), True),
}


@pytest.mark.parametrize("what", NOT_REPEATED)
def test_no_other_request_is_repeated(server: Running, what: str) -> None:
    path, request, keep_alive = NOT_REPEATED[what]
    rows, reconnected = load(server.url + path, OK, 4, keep_alive=keep_alive, request=request)
    assert reconnected == 0
    assert rows.outcome == (["correct", "lost"] * 2 if path.startswith("/kept") else ["lost"] * 4)
    assert len(connections(server, path)) == len(rows)


def test_a_request_whose_response_has_begun_is_not_repeated() -> None:
    """The server closes each connection in the middle of the head of the second response."""
    heads = list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"HTTP/1.1 200 OK\r\nConte"):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer)
            await writer.drain()
        writer.close()

    async def measure() -> tuple[Requests, int]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            return await asyncio.to_thread(load, f"http://127.0.0.1:{port}/", OK, 2, keep_alive=True)

    rows, reconnected = asyncio.run(measure())
    assert (rows.outcome, reconnected, len(heads)) == (["correct", "lost"], 0, 2)


@pytest.mark.parametrize("keep_alive", [False, True])
def test_each_user_keeps_a_connection_with_keep_alive_and_otherwise_opens_one_for_each_request(
    server: Running, keep_alive: bool
) -> None:
    path = f"/slow/0.01?users{keep_alive}"
    rows, _ = load(server.url + path, OK, 20, users=2, keep_alive=keep_alive)
    assert {*rows.outcome} == {"correct"}
    used = Counter(connections(server, path))
    assert sorted(used.values()) == (sorted(Counter(rows.user).values()) if keep_alive else [1] * 20)


def test_a_request_at_a_given_rate_is_noted_with_the_moment_at_which_it_was_due(server: Running) -> None:
    spec = load_spec(0, 1.0, f"{server.url}/text/ok?arrivals", arrivals_per_s=20, rights=(OK,))
    with isolated_tool(DRIVERS["client"]) as tool:
        rows, _ = told_by_client(output_of(tool, spec, rows=20))
    assert {*rows.outcome} == {"correct"}
    assert len(rows) == len(connections(server, "/text/ok?arrivals")) == 20
    assert all(
        due_s <= sent_s <= ended_s for due_s, sent_s, ended_s in zip(rows.due_s, rows.sent_s, rows.ended_s, strict=True)
    )
    begin_s = min(rows.due_s) - min(spec.due_s())
    assert [due_s - begin_s for due_s in sorted(rows.due_s)] == pytest.approx(spec.due_s(), abs=1e-4)


COMPARED = [  # a rule, a body, and whether it is correct instead of {"id": 1, "value": 3}
    (BodyRule(ANY), '{"error": true}', False),
    (BodyRule(ANY), '{"error": null}', True),
    (BodyRule(JSON, ignored=("id",)), '{"id": 2, "value": 3}', True),
    (BodyRule(JSON, ignored=("id",)), '{"id": 2, "value": 4}', False),
    (BodyRule(FIELDS, (("value", 3),)), '{"id": 2, "value": 3}', True),
    (BodyRule(FIELDS, (("value", 3),)), '{"id": 2, "value": 4}', False),
]


@pytest.mark.parametrize(("rule", "body", "is_correct"), COMPARED)
def test_the_client_compares_bodies_by_the_rule(
    server: Running, rule: BodyRule, body: str, *, is_correct: bool
) -> None:
    right = RightAnswer(rule=rule, answer=b'{"id": 1, "value": 3}')
    rows, _ = load(f"{server.url}/text/{quote(body)}", right)
    assert rows.outcome == ["correct" if is_correct else "wrong"]


@HEADERS
def test_the_client_checks_response_headers(server: Running, value: str, outcome: str) -> None:
    right = RightAnswer(answer=b"pong", headers=(("X-Served-By", value),))
    rows, _ = load(server.url + SERVED_BY, right)
    assert rows.outcome == [outcome]
    assert ("X-Served-By" in rows.problem[0]) is (outcome == "wrong")


@HEADERS
def test_a_drill_checks_response_headers(server: Running, value: str, outcome: str) -> None:
    async def ask() -> str:
        async with client() as session:
            expected = Expectation(b"pong", 0.1, 0.1, headers=(("X-Served-By", value),))
            return await Users(session, server.url + SERVED_BY, expected, LIMIT_S).send()

    assert asyncio.run(ask()) == outcome


@pytest.mark.parametrize("keep_alive", [False, True])
def test_the_bench_itself_sends_no_request_again_if_the_connection_is_lost(server: Running, keep_alive: bool) -> None:
    async def go() -> None:
        async with client(keep_alive=keep_alive) as session:
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.get(f"{server.url}/drop?{keep_alive}")

    asyncio.run(go())
    assert len(connections(server, f"/drop?{keep_alive}")) == 1


@pytest.mark.parametrize("keep_alive", [False, True])
def test_recovery_checks_never_reuse_connections_and_drill_users_do_only_with_keep_alive(
    server: Running, keep_alive: bool
) -> None:
    path = f"/text/pong?{keep_alive}"
    incident = Incident(server="it", title="it", values={}, fault="slow", round=1)

    async def ask() -> None:
        async with client(keep_alive=keep_alive) as session, client() as fresh:
            crowd = Users(session, server.url + path, Expectation(b"pong", 0.1, 0.1), LIMIT_S, fresh)
            for _ in range(2):
                await crowd.send()
            for _ in range(2):
                await crowd.send_check(incident, 0.0)

    asyncio.run(ask())
    assert incident.requests.only("check").outcome == ["correct"] * 2
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
