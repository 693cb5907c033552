"""Servers of a suite file: commands that the bench starts, and servers that are already running."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import scripted_server
from bench_runs import run_once
from conftest import LIMIT_S, TESTS, is_free, thorough, wait_until

from under_siege.host.managed_process import offspring
from under_siege.host.ports import must_be_its_own
from under_siege.host.services import Services, services
from under_siege.load.http_client import client, fetch
from under_siege.record.record import CaseFailedError, Record
from under_siege.record.requests import PING

SHOP = TESTS / "suites" / "shop"
PROGRAMS = ("redis-server", "postgres")
WORKER_FAILS = """
import subprocess, sys, time
subprocess.run([sys.executable, "-c", "import os; os.environ['SHOP_TAX']"])
print("[ERROR] Worker failed to boot.", file=sys.stderr, flush=True)
if sys.argv[1] == "stays":
    time.sleep(60)
sys.exit(3)
"""
# The worker of the server that stays has to fail within ready_within, so that its error is known.
MORE_SERVERS = """
[servers.told]
command = "python app.py PORT_TOLD plain"
url = "http://127.0.0.1:PORT_TOLD"
[servers.nobody]
url = "http://127.0.0.1:1"
ready_within = "1s"
[servers.stays]
command = "python parent.py stays {port}"
ready_within = "3s"
[servers.ends]
command = "python parent.py ends {port}"
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Record]:
    """Run the shop suite with more servers for one customer, and return the records by server name."""
    folder = tmp_path_factory.mktemp("shop")
    port_told = next(filter(is_free, range(29_000, 30_000)))  # below the ports that the system assigns to other tests
    text = (SHOP / "suite.toml").read_text().replace('["acme", "fresh"]', '["acme"]').replace('"1s"', '"0.3s"', 1)
    for name in ("app.py", "settings.ini", "from_settings.py"):
        (folder / name).write_text((SHOP / name).read_text())
    (folder / "parent.py").write_text(WORKER_FAILS)
    (folder / "suite.toml").write_text(text + MORE_SERVERS.replace("PORT_TOLD", str(port_told)))
    result, _ = run_once(folder, ".")
    assert is_free(port_told)  # the bench stopped the server
    return {record.server: record for record in result.records}


def test_correct_servers_of_a_suite_are_measured(shop: dict[str, Record]) -> None:
    for name in ("plain", "settings", "top", "told"):
        record = shop[name]
        assert record.failure is None
        assert record.tool_command[-1].endswith("/report?customer=acme")
        assert record.values["path"] == "/report?customer=acme"
        assert record.requests.only(PING)
        assert bool(record.samples.memory_bytes) is (name != "told")  # its process might not be a child of its command
    assert [name for name, record in shop.items() if record.is_ceiling] == ["top"]
    assert shop["plain"].title == "Plain: a thread for each request"


WRONG = {
    "wrong": ("wrong_answer", "GET /report?customer=acme returned 200 with 10 bytes 'other of 4' instead of 200 with"),
    "failing": ("no_answer", "GET http://"),
    "absent": ("no_command", "'no-such-server-here'"),
    "mute": ("died", "no licence here"),  # the last line of stdout, because stderr is empty
    "unmade": ("no_environment", ""),
    "elsewhere": ("not_ready", "listens on port"),
    "needy": ("missing_program", "no-such-program is not installed; install it with: "),
    "nobody": ("not_ready", "nothing listens at http://127.0.0.1:"),
    "stays": ("not_ready", "KeyError: 'SHOP_TAX'"),
    "ends": ("died", "KeyError: 'SHOP_TAX'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_server_that_cannot_be_measured_fails_with_the_reason(name: str, shop: dict[str, Record]) -> None:
    code, words = WRONG[name]
    failure = shop[name].failure
    assert failure.code == code
    assert words in failure.message


def test_a_running_server_is_neither_started_nor_stopped(tmp_path: Path) -> None:
    options = ("--ping", "/ping", "--users", "2", "--time", "0.3s")
    with scripted_server.running(tmp_path) as server:
        result, _ = run_once(tmp_path, f"{server.url}/slow/0.02", *options)
        assert not is_free(server.port)
    (record,) = result.records
    assert record.failure is None
    assert record.requests.only(PING)
    assert not record.samples.memory_bytes


def test_urls_are_requested_without_normalization(tmp_path: Path) -> None:
    async def go(url: str) -> None:
        async with client() as session:
            await fetch(session, url, LIMIT_S)

    with scripted_server.running(tmp_path) as server:
        asyncio.run(go(f"{server.url}/%41%c3%a9/../b?q=%2B+&r[]=1"))
        assert [request["path"] for request in server.received()] == ["/%41%c3%a9/../b?q=%2B+&r[]=1"]


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


@pytest.mark.parametrize("name", thorough(["redis", "postgresql"], ["redis"]))
def test_a_killed_service_is_reported_restarted_and_stopped_at_the_end(name: str) -> None:
    async def go() -> list[int]:
        async with services() as needed:
            first = port_of((await needed.addresses(["nginx", name]))[name])
            family = [process for process in offspring(os.getpid()) if process.name() in PROGRAMS]
            server = next(process for process in family if process.parent() not in family)
            assert os.getuid() != 0 or server.uids().effective != 0
            await needed.must_live([name])
            server.kill()
            await asyncio.to_thread(wait_until, lambda: is_free(first) and died(needed))
            return [first, port_of((await needed.addresses([name]))[name])]  # the service is restarted

    def died(needed: Services) -> str:
        try:
            asyncio.run(needed.must_live([name]))
        except CaseFailedError as failed:
            return str(failed)
        return ""

    try:
        assert all(map(is_free, asyncio.run(go())))
    except CaseFailedError as failed:
        if failed.code == "missing_program":
            pytest.skip(str(failed))
        raise


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2].partition("/")[0])
