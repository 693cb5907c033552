"""Locust's master and workers, on this machine and on others."""

import contextlib
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import wait_until
from simulated_bursts import burst_record_of
from tool_recordings import Quiet, Way

from common.errors import BadInputError
from under_siege.host.ports import claimed_port
from under_siege.host.programs import Tool, isolated_tool
from under_siege.judge.round_statistics import Round
from under_siege.judge.suspicions import starved_generator
from under_siege.load import DRIVERS
from under_siege.load.tool import LoadSpec, ToolOutput, Totals
from under_siege.suite.suite_file import read_suite

TIME_S = 1.0
LOCUST = DRIVERS["locust"]


@contextlib.contextmanager
def counting() -> Iterator[tuple[str, list[int]]]:
    """Start a server; yield its URL and a list with an entry for each request."""
    requests: list[int] = []

    class Counting(Way):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:  # noqa: N802 (http.server requires this name)
            requests.append(1)
            super().do_GET()

    with Quiet(("127.0.0.1", 0), Counting) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", requests
        server.shutdown()
        thread.join()


@contextlib.contextmanager
def started(tool: Tool, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=tool.environment(), cwd=tool.home, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def totals_of(tool: Tool, process: subprocess.Popen[str], order: LoadSpec) -> Totals:
    stdout, stderr = process.communicate(timeout=60)
    told = ToolOutput(process.returncode, stdout, stderr, tool.results())
    totals = tool.driver.totals(told, order)
    assert totals is not None, told
    return totals


def addresses(process: subprocess.Popen[str], port: int) -> set[str]:
    """Return the addresses on which the process listens at that port."""
    with contextlib.suppress(psutil.Error):
        found = psutil.Process(process.pid).net_connections("tcp")
        return {one.laddr.ip for one in found if one.status == psutil.CONN_LISTEN and one.laddr.port == port}
    return set()


def test_a_local_locust_master_listens_only_on_loopback_and_totals_match_the_requests() -> None:
    with counting() as (url, requests), isolated_tool(LOCUST) as tool, claimed_port(5557) as claim:
        port = claim.getsockname()[1]
        order = LoadSpec(4, TIME_S, url, threads=2, port=port)
        with started(tool, tool.command(order)) as process:
            assert wait_until(lambda: addresses(process, port)) == {"127.0.0.1"}
            totals = totals_of(tool, process, order)
    assert totals.right > 0
    assert 0 <= len(requests) - totals.right <= order.users  # requests in flight at the end


def test_a_remote_locust_worker_gets_the_locustfile_from_the_master(tmp_path: Path) -> None:
    """Follow docs/suites.md, but run the worker on this machine."""
    with counting() as (url, requests), isolated_tool(LOCUST) as tool, claimed_port(5657) as claim:
        port = str(claim.getsockname()[1])
        options = ("--master", "--expect-workers", "2", "--master-bind-host", "127.0.0.1", "--master-bind-port", port)
        order = LoadSpec(2, TIME_S, url, options=options)
        worker = [
            tool.program,
            "-f",
            "-",
            "--worker",
            "--master-host",
            "127.0.0.1",
            "--master-port",
            port,
            "--processes",
            "2",
        ]
        with started(tool, worker) as remote_worker, started(tool, tool.command(order)) as master:
            totals = totals_of(tool, master, order)
            remote_worker.communicate(timeout=60)  # the worker ends with its master
    assert totals.right > 0
    assert 0 <= len(requests) - totals.right <= order.users  # requests in flight at the end


def write_suite(folder: Path, load: str) -> Path:
    path = folder / "suite.toml"
    path.write_text(f'[load]\n{load}\n[servers.one]\ncommand = "python app.py {{port}}"\n')
    return path


def test_a_suite_sets_the_number_of_locust_workers(tmp_path: Path) -> None:
    load = read_suite(write_suite(tmp_path, 'tool = "locust"\nlocust_workers = 3')).load
    assert load.threads == 3
    words = LOCUST.command("locust", tmp_path, LoadSpec(4, 1.0, "http://a/", threads=load.threads))
    assert words[words.index("--processes") + 1] == "3"
    assert words[words.index("--master-bind-host") + 1] == "127.0.0.1"


@pytest.mark.parametrize(
    ("load", "error"),
    [
        ("locust_workers = 3", 'needs tool = "locust", and can.t be combined'),
        ('tool = "locust"\nlocust_workers = 3\nthreads = 2', 'needs tool = "locust", and can.t be combined'),
        ('tool = "locust"\nlocust_workers = 0', "load.locust_workers = 0: expected a whole number >= 1"),
    ],
)
def test_an_invalid_number_of_locust_workers_is_rejected(load: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=error):
        read_suite(write_suite(tmp_path, load))


def test_an_overloaded_locust_worker_is_reported_as_the_bottleneck() -> None:
    record = burst_record_of("1_a", tool="locust")
    assert starved_generator(Round(record), None) is None
    record.tool_report = "[...] WARNING/x: Worker a_1 (index 0) exceeded cpu threshold (will only log this once)"
    assert "one of Locust's workers used more than 90 %" in starved_generator(Round(record), None)
