"""Anyone's servers: commands of a suite, and servers that run already; real ones, and what comes of each."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import msgspec
import psutil
import pytest
from besieging import Besieged, measured
from conftest import LIMIT_S, TESTS, is_free, wait_until
from planned import plan_of

from under_siege.analysis.report_data import summarize
from under_siege.environments.services import Services, _last_error, _last_line, services
from under_siege.errors import CaseFailedError
from under_siege.http_client import Answer, client, get
from under_siege.model.record import Result
from under_siege.model.suite import ANY, JSON, SAME
from under_siege.processes import ports
from under_siege.processes.ports import must_be_its_own
from under_siege.render import dressed
from under_siege.run import server
from under_siege.run.plan import make_plan
from under_siege.run.server import running as server_running
from under_siege.targets.expectation import Expectation
from under_siege.targets.selection import suite_of

SHOP = TESTS / "suites" / "shop"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Besieged], Result]:
    """The suite of the shop, for one customer only."""
    folder = tmp_path_factory.mktemp("shop")
    text = (SHOP / "suite.toml").read_text().replace('["acme", "fresh"]', '["acme"]')
    for name in ("app.py", "settings.ini", "from_settings.py"):
        (folder / name).write_text((SHOP / name).read_text())
    (folder / "suite.toml").write_text(text)
    result, _ = measured(folder, ".")
    records = {record.server: record for record in result.records}
    comparison = summarize(result)
    cases = (*comparison.ceilings, *comparison.cases)
    return {case.server: Besieged(records[case.server], case) for case in cases}, result


Shop = tuple[dict[str, Besieged], Result]


@pytest.mark.figures
def test_right_servers_have_figures(shop: Shop) -> None:
    for name in ("plain", "settings", "top"):
        one = shop[0][name]
        assert one.summary.verdict != "failed", one.summary.reasons
        assert one.summary.rate_per_s is not None
        assert one.summary.ping_s is not None
        assert one.summary.memory_bytes
        assert one.record.tool_command[-1].endswith("/report?customer=acme")
    assert shop[0]["plain"].summary.of_ceiling is not None
    assert shop[0]["plain"].summary.title == "Plain: a thread for each request"


WRONG = {
    "wrong": ("wrong_answer", "GET /report?customer=acme gives 200 with 10 bytes 'other of 4' instead of 200 with"),
    "failing": ("no_answer", "GET http://"),
    "absent": ("no_command", "'no-such-server-here' can't be started: No such file or directory"),
    "mute": ("died", "the server ended with exit code 0 after "),
    "unmade": ("no_environment", "its requirements can't be installed"),
    "elsewhere": ("not_ready", "it listens on port"),
    "needy": ("missing_program", "no-such-program is not installed; install it with: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_that_can_not_be_measured_fails_alone_and_says_why(name: str, shop: Shop) -> None:
    code, words = WRONG[name]
    assert shop[0][name].summary.verdict == "failed"
    assert shop[0][name].why == code
    assert words in shop[0][name].words


def test_the_last_words_of_one_that_says_nothing_on_stderr_are_those_on_stdout(shop: Shop) -> None:
    assert "; its last line: no licence here; if it went to the background" in shop[0]["mute"].words


@pytest.mark.usefixtures("undrawn")
def test_every_dress_shows_a_suite(shop: Shop) -> None:
    result = shop[1]
    page = dressed(result, "html")
    assert "Which &lt;b&gt;shop&lt;/b&gt; is quick?" in page
    assert "<b>shop</b>" not in page
    assert "/report?customer=acme" in dressed(result, "markdown")
    case = next(one for one in json.loads(dressed(result, "json"))["cases"] if one["server"] == "plain")
    assert case["parameters"] == {"path": "/report?customer=acme", "customer": "acme"}
    assert "plain" in dressed(result, "csv")


RIGHT = b'{"a": 1,    "b": 2}'


@pytest.mark.parametrize(
    ("body", "fitting"),
    [(SAME, [RIGHT]), (JSON, [RIGHT, b'{"b":2, "a":1}']), (ANY, [RIGHT, b'{"b":2, "a":1}', b'{"a": 1}', b"[" * 99999])],
)
def test_bodies_are_compared_as_the_suite_says(body: str, fitting: list[bytes]) -> None:
    expected = Expectation(RIGHT, 0.1, 0.0, 201, body)
    for answer in (RIGHT, b'{"b":2, "a":1}', b'{"a": 1}', b"[" * 99999):
        assert expected.fits(201, answer) == (answer in fitting)
        assert not expected.fits(200, answer)
    assert expected.size_bytes == (len(RIGHT) if body == SAME else -1)


def test_what_was_not_compared_or_measured_is_said(tmp_path: Path) -> None:
    kinds = {"json": True, "shuffled": True, "differs": False}
    servers = "".join(f'[servers.{kind}]\ncommand = "python app.py {{port}} {kind}"\n' for kind in kinds)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    servers += f'[servers.told]\ncommand = "python app.py {port} json"\nurl = "http://127.0.0.1:{port}"\n'
    (tmp_path / "app.py").write_text((SHOP / "app.py").read_text())
    text = f'[load]\npath = "/report"\nusers = 1\ntime = "1s"\n[expect]\nbody = "json"\n{servers}'
    (tmp_path / "s.toml").write_text(text)
    result, _ = measured(tmp_path, "s.toml")
    found = {one.server: one for one in summarize(result).cases}
    assert {name: one.verdict != "failed" for name, one in found.items()} == {**kinds, "told": True}
    assert found["json"].memory_bytes
    assert not found["told"].memory_bytes  # what its command has started may be elsewhere
    assert is_free(port)  # but it was ended
    assert "compared as JSON, not byte for byte" in dressed(result, "markdown")
    assert "none was measured, so rates above what is physically possible" in dressed(result, "markdown")
    assert "none were sent" in dressed(result, "markdown")  # of pings
    anything = msgspec.structs.replace(result, suite=msgspec.structs.replace(result.suite, body=ANY))
    assert "only the status was checked" in dressed(anything, "markdown")


@pytest.fixture
def running() -> Iterator[int]:
    """The port of a server that somebody else has started."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "app.py", str(port), "plain"], cwd=SHOP)
    try:
        yield port
        assert server.poll() is None  # it was not ended by us
    finally:
        server.kill()
        server.wait()


def test_a_server_that_runs_already_is_neither_started_nor_stopped(running: int, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{running}/report?customer=acme"
    options = ("--ping", "/health", "--users", "2", "--time", "1s")
    result, ran = measured(tmp_path, address, *options)
    summary = summarize(result).cases[0]
    assert summary.verdict != "failed", summary.reasons
    assert summary.rate_per_s is not None
    assert summary.ping_s is not None
    assert (summary.cpu_s_per_transaction, summary.memory_bytes) == (None, None)
    assert "memory" not in ran.stdout.split("note")[0]


def test_an_address_at_which_nothing_answers_is_said(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "s.toml").write_text(
        f'[load]\ntime = "1s"\n[ping]\nready_within = 1\n[servers.x]\nurl = "http://127.0.0.1:{port}"'
    )
    result, _ = measured(tmp_path, "s.toml")
    assert [record.failure.code for record in result.records] == ["not_ready"]
    assert f"nothing listens at http://127.0.0.1:{port}" in result.records[0].failure.message


class NoNames:
    """A session where no host has a name."""

    def get(self, *_: object, **__: object) -> None:
        key = aiohttp.client_reqrep.ConnectionKey("gone.invalid", 80, False, True, None, None, None)
        raise aiohttp.ClientConnectorDNSError(key, OSError(-2, "Name or service not known"))


def test_a_host_that_nobody_knows_is_not_waited_for() -> None:
    plan = make_plan(suite_of(["http://gone.invalid/report"]), {"python": ["python3"]}, time_s=None, rounds=1)

    async def go() -> None:
        async with server_running(plan, plan.cases[0], SimpleNamespace(), Services()) as server:
            await server.ready(NoNames())

    with pytest.raises(CaseFailedError, match=r"no host is known by the name 'gone\.invalid'"):
        asyncio.run(go())


def test_an_address_is_asked_for_as_it_is_written() -> None:
    async def go() -> str:
        heard: list[str] = []

        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append((await reader.readline()).decode())
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            writer.close()

        async with await asyncio.start_server(hear, "127.0.0.1", 0) as listening, client() as session:
            port = listening.sockets[0].getsockname()[1]
            await get(session, f"http://127.0.0.1:{port}/%41%c3%a9/../b?q=%2B+&r[]=1", LIMIT_S)
        return heard[0]

    assert asyncio.run(go()).startswith("GET /%41%c3%a9/../b?q=%2B+&r[]=1 HTTP")


def test_an_answer_that_leads_elsewhere_says_where() -> None:
    answer = Answer(308, b"", {"location": "/report/\x1b[31m"})
    assert answer.described() == "308 to '/report/\ufffd[31m' with 0 bytes ''"


def test_an_answer_has_to_come_from_the_processes_that_were_started() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        must_be_its_own(os.getpid(), port)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            with pytest.raises(
                CaseFailedError, match=f"port {port} is answered by a process that was not started here"
            ):
                must_be_its_own(other.pid, port)
            other.communicate(b"\n")
    must_be_its_own(os.getpid(), port)  # nobody listens there any more, which is found out otherwise


class Seen:
    """A process as the system shows it, with the ports on which it listens, and those over which it asks."""

    def __init__(self, *listens: int, asks: int = 0, below: tuple["Seen", ...] = (), error: type | None = None) -> None:
        self._below, self._error = below, error
        self._connections = [SimpleNamespace(status=psutil.CONN_LISTEN, laddr=SimpleNamespace(port=p)) for p in listens]
        self._connections.append(SimpleNamespace(status=psutil.CONN_ESTABLISHED, laddr=SimpleNamespace(port=asks)))

    def children(self) -> list["Seen"]:
        return [*self._below, *(two for one in self._below for two in one.children())]

    def net_connections(self, **_: str) -> list[SimpleNamespace]:
        if self._error is not None:
            raise self._error(1)
        return self._connections


OURS = 5000
OWN = {
    "itself": (Seen(OURS), Seen()),
    "a child of its child": (Seen(below=(Seen(below=(Seen(OURS),)),)), Seen()),
    "beside a child that has just ended": (Seen(below=(Seen(error=psutil.NoSuchProcess), Seen(OURS))), Seen()),
    "who has left it": (Seen(), Seen(below=(Seen(OURS),))),
    "where the system does not tell": (Seen(error=psutil.AccessDenied), Seen()),
    "which has ended": (Seen(error=psutil.ZombieProcess), Seen()),
}
STRANGERS = {
    "nowhere": (Seen(), "; the server listens nowhere"),
    "asks over that port": (Seen(asks=OURS), "; the server listens nowhere"),
    "elsewhere": (Seen(4, 2, below=(Seen(1, 3),)), "; it listens on port 1 and 2 and 3 instead"),
}


def seen(monkeypatch: pytest.MonkeyPatch, of_server: Seen, of_supervisor: Seen) -> None:
    known = {name: getattr(psutil, name) for name in ("CONN_LISTEN", "Error", "NoSuchProcess", "ZombieProcess")}
    process = {7: of_server, 8: of_supervisor}.__getitem__
    monkeypatch.setattr(ports, "psutil", SimpleNamespace(**known, Process=process))
    monkeypatch.setattr(ports, "offspring", lambda pid: process(pid).children())
    monkeypatch.setattr(ports, "_listening", lambda: None)  # as where Linux has no tables
    monkeypatch.setattr(ports, "port_is_free", lambda _: False)


@pytest.mark.parametrize("who", OWN)
def test_whoever_the_server_has_started_may_answer(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen(monkeypatch, *OWN[who])
    must_be_its_own(7, OURS, 8)


@pytest.mark.parametrize("who", STRANGERS)
def test_a_stranger_is_told_with_where_the_server_listens(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    process, told = STRANGERS[who]
    seen(monkeypatch, process, Seen())
    with pytest.raises(CaseFailedError) as failed:
        must_be_its_own(7, OURS, 8)
    assert failed.value.code == "stranger"
    assert f"port {OURS} is answered by a process that was not started here{told}" in str(failed.value)


TABLES = {
    "tcp": """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1388 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100007F:1389 0100007F:1388 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 20 4 30 10 -1
   2: 0100007F:138A 0100007F:1388 06 00000000:00000000 03:00001733 00000000     0        0 0 3 0
""",
    "tcp6": """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when
 100: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 \
00000000  1000        0 13 1 0 100 0 0 10 0
""",
}


def test_only_who_listens_is_read_from_the_tables_of_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_NET", tmp_path)
    assert ports._listening() is None
    for name, table in TABLES.items():
        (tmp_path / name).write_text(table)
    assert ports._listening() == {"11": 0x1388, "13": 80}


def test_a_right_answer_of_a_stranger_ends_the_waiting_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for = []

    def look(*who: int) -> None:
        asked_for.append(who)
        raise CaseFailedError("stranger", "it is somebody else")

    async def answered(*_: object) -> Answer:
        return Answer(200, b"", {})

    process = SimpleNamespace(stdout=None, stderr=None, supervisor=SimpleNamespace(pid=8))
    monkeypatch.setattr(server, "_begun", lambda _: SimpleNamespace(pid=7, process=process))
    monkeypatch.setattr(server, "Tail", lambda _: None)
    monkeypatch.setattr(server, "must_be_its_own", look)
    monkeypatch.setattr(server, "get", answered)
    plan = plan_of("2")
    one = server.Server(plan, plan.cases[0], "http://here", OURS, SimpleNamespace(own_folder=""))
    monkeypatch.setattr(one, "_is_right", lambda _: True)
    with pytest.raises(CaseFailedError, match="it is somebody else"):
        asyncio.run(one.ready(None))
    assert asked_for == [(7, OURS, 8)]


@pytest.mark.parametrize("name", ["redis", "postgresql"])
def test_a_service_is_private_and_is_gone_at_the_end(name: str) -> None:
    async def go() -> list[int]:
        async with services() as needed:
            first = _port((await needed.addresses(["nginx", name]))[name])
            # One of a family that shares the socket, and ends while it is looked at, hides the others.
            server = await asyncio.to_thread(wait_until, lambda: _listener(first))
            assert os.getuid() != 0 or server.uids().effective != 0
            await needed.must_live([name])
            os.kill(server.pid, signal.SIGKILL)
            await asyncio.to_thread(wait_until, lambda: _listener(first) is None)
            await _death_is_noticed(needed, name)
            return [first, _port((await needed.addresses([name]))[name])]  # it is started again

    try:
        ports = asyncio.run(go())
    except CaseFailedError as failed:
        if failed.code == "missing_program":
            pytest.skip(str(failed))
        raise
    assert [_listener(port) for port in ports] == [None, None]


def test_a_service_that_cannot_be_prepared_says_why_and_not_what_it_did_then() -> None:
    output = "initdb: error: could not write: No space left on device\ninitdb: removing data directory\n"
    assert _last_error(output) == "it says: initdb: error: could not write: No space left on device"
    assert _last_line(output) == "its last line: initdb: removing data directory"


async def _death_is_noticed(needed: Services, name: str) -> None:
    """Soon, and said once the supervisor has seen it."""
    deadline_s = asyncio.get_running_loop().time() + LIMIT_S
    while asyncio.get_running_loop().time() < deadline_s:
        try:
            await needed.must_live([name])
        except CaseFailedError as failed:
            assert f"{name}, which the server needs, was ended by SIGKILL meanwhile" in str(failed)  # noqa: PT017
            return
        await asyncio.sleep(0.01)  # between two looks
    pytest.fail("it was not noticed")


def _port(address: str) -> int:
    return int(address.rpartition(":")[2].partition("/")[0])


def _listener(port: int) -> psutil.Process | None:
    """Who listens there: the first of a family that shares the socket."""
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
                process = psutil.Process(connection.pid)
                family = [one for one in process.parents() if one.name() == process.name()]
                return family[-1] if family else process
    return None
