"""Locust's master and workers, on this machine and on others."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import wait_until
from load_specs import load_spec
from load_tool_checks import LIMIT_S
from scripted_server import running

from under_siege.host.ports import claimed_port
from under_siege.host.programs import Tool, isolated_tool
from under_siege.load import DRIVERS
from under_siege.load.tool import LoadSpec, ToolOutput

LOCUST, PATH, USERS = DRIVERS["locust"], "/slow/0.02", 2


@contextlib.contextmanager
def started(tool: Tool, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=tool.environment(), cwd=tool.home, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def counted(tool: Tool, process: subprocess.Popen[str], spec: LoadSpec) -> int:
    """Wait for Locust, and return the number of right responses that it reports."""
    stdout, stderr = process.communicate(timeout=LIMIT_S)
    told = ToolOutput(process.returncode, stdout, stderr, tool.results())
    totals = tool.driver.totals(told, spec)
    assert totals is not None, told
    return totals.right


def addresses(process: subprocess.Popen[str], port: int) -> set[str]:
    """Return the addresses on which the process listens at that port."""
    with contextlib.suppress(psutil.Error):
        found = psutil.Process(process.pid).net_connections("tcp")
        return {one.laddr.ip for one in found if one.status == psutil.CONN_LISTEN and one.laddr.port == port}
    return set()


def test_a_local_locust_master_listens_only_on_loopback_and_totals_match_the_requests(tmp_path: Path) -> None:
    with running(tmp_path) as server, isolated_tool(LOCUST) as tool, claimed_port(5557) as claim:
        port = claim.getsockname()[1]
        spec = load_spec(USERS, 2.0, server.url + PATH, threads=2, port=port)
        with started(tool, tool.command(spec)) as process:
            assert wait_until(lambda: addresses(process, port), LIMIT_S) == {"127.0.0.1"}
            right = counted(tool, process, spec)
        assert 0 <= len(server.received()) - right <= USERS


@pytest.mark.slow
def test_a_remote_locust_worker_gets_the_locustfile_from_the_master(tmp_path: Path) -> None:
    """Follow docs/suites.md, but run the worker on this machine."""
    with running(tmp_path) as server, isolated_tool(LOCUST) as tool, claimed_port(5657) as claim:
        port = str(claim.getsockname()[1])
        options = ("--master", "--expect-workers", "2", "--master-bind-host", "127.0.0.1", "--master-bind-port", port)
        spec = load_spec(USERS, 2.0, server.url + PATH, options=options)
        worker = f"{tool.program} -f - --worker --master-host 127.0.0.1 --master-port {port} --processes 2".split()
        with started(tool, worker) as remote_worker, started(tool, tool.command(spec)) as master:
            right = counted(tool, master, spec)
            remote_worker.communicate(timeout=LIMIT_S)  # the worker ends with its master
        assert 0 <= len(server.received()) - right <= USERS
