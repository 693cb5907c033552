"""Servers of a suite file: commands that the bench starts, and servers that are already running."""

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
from bench_runs import MeasuredCase, run_once
from conftest import LIMIT_S, TESTS, is_free, wait_until

from under_siege.host.ports import must_be_its_own
from under_siege.host.services import Services, services
from under_siege.judge.ranking import summarize
from under_siege.load.http_client import HttpResponse, client, fetch
from under_siege.load.request import ANY, JSON, SAME, BodyRule
from under_siege.measure.plan import make_plan
from under_siege.measure.server import running as server_running
from under_siege.record.record import CaseFailedError
from under_siege.record.result import Result
from under_siege.report import formatted
from under_siege.suite.expected_response import Expectation
from under_siege.suite.selection import suite_of

SHOP = TESTS / "suites" / "shop"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, MeasuredCase], Result]:
    """Run the shop suite for one customer; return the measured cases by server name, and the result."""
    folder = tmp_path_factory.mktemp("shop")
    text = (SHOP / "suite.toml").read_text().replace('["acme", "fresh"]', '["acme"]')
    for name in ("app.py", "settings.ini", "from_settings.py"):
        (folder / name).write_text((SHOP / name).read_text())
    (folder / "suite.toml").write_text(text)
    result, _ = run_once(folder, ".")
    records = {record.server: record for record in result.records}
    comparison = summarize(result)
    cases = (*comparison.ceilings, *comparison.cases)
    return {case.server: MeasuredCase(records[case.server], case) for case in cases}, result


Shop = tuple[dict[str, MeasuredCase], Result]


def test_correct_servers_of_a_suite_are_measured(shop: Shop) -> None:
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
    "wrong": ("wrong_answer", "GET /report?customer=acme returned 200 with 10 bytes 'other of 4' instead of 200 with"),
    "failing": ("no_answer", "GET http://"),
    "absent": ("no_command", "'no-such-server-here' can't be started: No such file or directory"),
    "mute": ("died", "the server ended with exit code 0 after "),
    "unmade": ("no_environment", "its requirements can't be installed"),
    "elsewhere": ("not_ready", "the server listens on port"),
    "needy": ("missing_program", "no-such-program is not installed; install it with: "),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_server_that_cannot_be_measured_fails_with_the_reason(name: str, shop: Shop) -> None:
    code, words = WRONG[name]
    assert shop[0][name].summary.verdict == "failed"
    assert shop[0][name].code == code
    assert words in shop[0][name].message


def test_the_last_line_of_stdout_is_reported_if_stderr_is_empty(shop: Shop) -> None:
    assert "; its last line: no licence here; if it runs in the background" in shop[0]["mute"].message


@pytest.mark.usefixtures("undrawn")
def test_every_output_format_shows_the_result_of_a_suite(shop: Shop) -> None:
    result = shop[1]
    page = formatted(result, "html")
    assert "Which &lt;b&gt;shop&lt;/b&gt; is quick?" in page
    assert "<b>shop</b>" not in page
    assert "/report?customer=acme" in formatted(result, "markdown")
    case = next(one for one in json.loads(formatted(result, "json"))["cases"] if one["server"] == "plain")
    assert case["parameters"] == {"path": "/report?customer=acme", "customer": "acme"}
    assert "plain" in formatted(result, "csv")


RIGHT = b'{"a": 1,    "b": 2}'


@pytest.mark.parametrize(
    ("body", "fitting"),
    [(SAME, [RIGHT]), (JSON, [RIGHT, b'{"b":2, "a":1}']), (ANY, [RIGHT, b'{"b":2, "a":1}', b'{"a": 1}', b"[" * 99999])],
)
def test_bodies_are_compared_as_the_suite_specifies(body: str, fitting: list[bytes]) -> None:
    expected = Expectation(RIGHT, 0.1, 0.0, 201, BodyRule(body))
    for answer in (RIGHT, b'{"b":2, "a":1}', b'{"a": 1}', b"[" * 99999):
        assert expected.fits(201, answer) == (answer in fitting)
        assert not expected.fits(200, answer)
    assert expected.size_bytes == (len(RIGHT) if body == SAME else -1)


def test_the_report_names_comparisons_and_measurements_that_were_omitted(tmp_path: Path) -> None:
    kinds = {"json": True, "shuffled": True, "differs": False}
    servers = "".join(f'[servers.{kind}]\ncommand = "python app.py {{port}} {kind}"\n' for kind in kinds)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    servers += f'[servers.told]\ncommand = "python app.py {port} json"\nurl = "http://127.0.0.1:{port}"\n'
    (tmp_path / "app.py").write_text((SHOP / "app.py").read_text())
    text = f'[load]\npath = "/report"\nusers = 1\ntime = "1s"\n[expect]\nbody = "json"\n{servers}'
    (tmp_path / "s.toml").write_text(text)
    result, _ = run_once(tmp_path, "s.toml")
    found = {one.server: one for one in summarize(result).cases}
    assert {name: one.verdict != "failed" for name, one in found.items()} == {**kinds, "told": True}
    assert found["json"].memory_bytes
    assert not found["told"].memory_bytes  # the server's process might not be a child of its command
    assert is_free(port)  # nevertheless, the bench stopped the server
    assert "compared as JSON, not byte for byte" in formatted(result, "markdown")
    assert "the highest possible rate was not measured" in formatted(result, "markdown")
    assert "not sent, so health-check latency" in formatted(result, "markdown")
    anything = msgspec.structs.replace(
        result, suite=msgspec.structs.replace(result.suite, checked=BodyRule(ANY).checked())
    )
    assert "only the status was checked" in formatted(anything, "markdown")


@pytest.fixture
def running() -> Iterator[int]:
    """Start a server without the bench, and yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "app.py", str(port), "plain"], cwd=SHOP)
    try:
        yield port
        assert server.poll() is None  # the bench did not stop it
    finally:
        server.kill()
        server.wait()


def test_a_running_server_is_neither_started_nor_stopped(running: int, tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{running}/report?customer=acme"
    options = ("--ping", "/health", "--users", "2", "--time", "1s")
    result, ran = run_once(tmp_path, address, *options)
    summary = summarize(result).cases[0]
    assert summary.verdict != "failed", summary.reasons
    assert summary.rate_per_s is not None
    assert summary.ping_s is not None
    assert (summary.cpu_s_per_transaction, summary.memory_bytes) == (None, None)
    assert "memory" not in ran.stdout.split("note")[0]


def test_an_address_without_a_server_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "s.toml").write_text(
        f'[load]\ntime = "1s"\n[ping]\nready_within = 1\n[servers.x]\nurl = "http://127.0.0.1:{port}"'
    )
    result, _ = run_once(tmp_path, "s.toml")
    assert [record.failure.code for record in result.records] == ["not_ready"]
    assert f"nothing listens at http://127.0.0.1:{port}" in result.records[0].failure.message


WORKER_FAILS = """
import subprocess, sys, time
subprocess.run([sys.executable, "-c", "import os; os.environ['SHOP_TAX']"])
print("[ERROR] Worker failed to boot.", file=sys.stderr, flush=True)
if sys.argv[1] == "stays":
    time.sleep(60)
sys.exit(3)
"""


@pytest.mark.parametrize(("parent", "code"), [("stays", "not_ready"), ("ends", "died")])
def test_the_error_of_a_worker_process_is_reported(parent: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(WORKER_FAILS)
    (tmp_path / "s.toml").write_text(
        f'[load]\ntime = "1s"\n[ping]\nready_within = 1\n[servers.x]\ncommand = "python parent.py {parent} {{port}}"'
    )
    result, _ = run_once(tmp_path, "s.toml")
    failure = result.records[0].failure
    assert failure.code == code
    assert failure.message.endswith("KeyError: 'SHOP_TAX'")


class FailingDns:
    """A client session in which every DNS lookup fails."""

    def request(self, *_: object, **__: object) -> None:
        key = aiohttp.client_reqrep.ConnectionKey("gone.invalid", 80, False, True, None, None, None)
        raise aiohttp.ClientConnectorDNSError(key, OSError(-2, "Name or service not known"))


def test_a_url_with_an_unknown_host_fails_immediately() -> None:
    plan = make_plan(suite_of(["http://gone.invalid/report"]), {"python": ["python3"]}, time_s=None, rounds=1)

    async def go() -> None:
        async with server_running(plan, plan.cases[0], SimpleNamespace(), Services()) as server:
            await server.ready(FailingDns())

    with pytest.raises(CaseFailedError, match=r"unknown host 'gone\.invalid'"):
        asyncio.run(go())


def test_urls_are_requested_without_normalization() -> None:
    async def go() -> str:
        heard: list[str] = []

        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heard.append((await reader.readline()).decode())
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            writer.close()

        async with await asyncio.start_server(hear, "127.0.0.1", 0) as listening, client() as session:
            port = listening.sockets[0].getsockname()[1]
            await fetch(session, f"http://127.0.0.1:{port}/%41%c3%a9/../b?q=%2B+&r[]=1", LIMIT_S)
        return heard[0]

    assert asyncio.run(go()).startswith("GET /%41%c3%a9/../b?q=%2B+&r[]=1 HTTP")


def test_the_error_for_a_redirect_contains_the_target() -> None:
    answer = HttpResponse(308, b"", {"location": "/report/\x1b[31m"})
    assert answer.described() == "308 to '/report/\ufffd[31m' with 0 bytes ''"


def test_responses_of_processes_that_the_run_did_not_start_are_rejected() -> None:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = ours.getsockname()[1]
        must_be_its_own(os.getpid(), port)
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
            with pytest.raises(
                CaseFailedError, match=f"another process, which this run did not start, listens on port {port}"
            ):
                must_be_its_own(other.pid, port)
            other.communicate(b"\n")
    must_be_its_own(os.getpid(), port)  # no process listens any more, which another check reports


@pytest.mark.parametrize("name", ["redis", "postgresql"])
def test_a_killed_service_is_restarted_and_stopped_at_the_end(name: str) -> None:
    async def go() -> list[int]:
        async with services() as needed:
            first = _port((await needed.addresses(["nginx", name]))[name])
            # If a process that shares the socket ends during the lookup, `_listener` can miss the others, so retry.
            server = await asyncio.to_thread(wait_until, lambda: _listener(first))
            assert os.getuid() != 0 or server.uids().effective != 0
            await needed.must_live([name])
            os.kill(server.pid, signal.SIGKILL)
            await asyncio.to_thread(wait_until, lambda: _listener(first) is None)
            await _death_is_noticed(needed, name)
            return [first, _port((await needed.addresses([name]))[name])]  # the service is restarted

    try:
        ports = asyncio.run(go())
    except CaseFailedError as failed:
        if failed.code == "missing_program":
            pytest.skip(str(failed))
        raise
    assert [_listener(port) for port in ports] == [None, None]


async def _death_is_noticed(needed: Services, name: str) -> None:
    """Wait until an error reports that the service was killed, which the supervisor notices with a delay."""
    deadline_s = asyncio.get_running_loop().time() + LIMIT_S
    while asyncio.get_running_loop().time() < deadline_s:
        try:
            await needed.must_live([name])
        except CaseFailedError as failed:
            assert f"{name}, which the server needs, was terminated by SIGKILL during the run" in str(failed)  # noqa: PT017
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"the death of {name} was not reported")


def _port(address: str) -> int:
    return int(address.rpartition(":")[2].partition("/")[0])


def _listener(port: int) -> psutil.Process | None:
    """Return the process that listens on the port, or None; if several share the socket, return the topmost one."""
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
            with contextlib.suppress(psutil.NoSuchProcess):  # the process has just ended
                process = psutil.Process(connection.pid)
                family = [one for one in process.parents() if one.name() == process.name()]
                return family[-1] if family else process
    return None
