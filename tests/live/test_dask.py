"""10_async_dask on an external cluster that is started with Dask's own commands."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import LIMIT_S, ROOT, Served, receive, serving, start, wait_until
from external_program import started

SERVER = ROOT / "servers" / "10_async_dask.py"
DASK = str(Path(sys.executable).with_name("dask"))


def dask(*words: str) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    return started(DASK, *words, "--no-dashboard")


class Cluster:
    """A scheduler and two workers."""

    def __init__(self, stack: contextlib.ExitStack, folder: Path) -> None:
        file = folder / "scheduler.json"  # the scheduler chooses its port and writes its address here
        listen = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        self.scheduler = stack.enter_context(dask("scheduler", *listen))
        options = ("--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--local-directory", str(folder))
        self.workers = [stack.enter_context(dask("worker", *options)) for _ in range(2)]
        wait_until(lambda: file.exists() and file.read_text(), 60)
        self.address = json.loads(file.read_text())["address"]
        wait_until(lambda: all(self._is_connected(worker) for worker in self.workers), 60)

    def _is_connected(self, worker: subprocess.Popen[bytes]) -> bool:
        port = int(self.address.rpartition(":")[2])
        connections = psutil.Process(worker.pid).net_connections("tcp")
        return any(one.raddr and one.raddr.port == port and one.status == "ESTABLISHED" for one in connections)


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    with contextlib.ExitStack() as stack:
        started = Cluster(stack, tmp_path)
        monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", started.address)
        yield started


def test_the_dask_server_runs_tasks_and_jobs_on_an_external_cluster(cluster: Cluster, tmp_path: Path) -> None:
    """Start the cluster and the server only once for all checks, because both are slow to start."""
    with serving(SERVER, "--task", "sample_tasks:half_a_second_of_computing") as served:
        check_that_tasks_run_on_the_workers(served, cluster)
        check_that_a_job_is_accepted_and_completed(served)
        check_that_losing_a_worker_loses_no_answer(served, cluster, tmp_path / "begun")
        check_that_requests_fail_without_the_scheduler(served, cluster, tmp_path / "begun")
        assert served.request("/ping").body == "pong"
        served.process.terminate()
        assert served.process.wait(timeout=20) == 0


def check_that_tasks_run_on_the_workers(served: Served, cluster: Cluster) -> None:
    answers = [receive(request) for request in [served.send("/") for _ in range(4)]]
    ran_in = {int(answer.headers["x-worker"].split("/")[0]) for answer in answers}
    assert ran_in == {worker.pid for worker in cluster.workers}
    assert not psutil.Process(served.process.pid).children(recursive=True)


def check_that_a_job_is_accepted_and_completed(served: Served) -> None:
    taken = served.request("/jobs", "POST")
    assert (taken.status, taken.body) == (202, "queued")
    job = taken.headers["location"]
    assert served.request(job).status == 202
    wait_until(lambda: served.request(job).status == 200)
    assert served.request(job).body == "computed"
    assert served.request("/jobs/0123").status == 404


def check_that_losing_a_worker_loses_no_answer(served: Served, cluster: Cluster, begun: Path) -> None:
    begun.unlink()
    requests = [served.send("/") for _ in range(6)]
    wait_until(begun.exists)
    cluster.workers[0].kill()
    answers = [receive(request) for request in requests]
    assert [(answer.status, answer.body) for answer in answers] == [(200, "computed")] * 6


def check_that_requests_fail_without_the_scheduler(served: Served, cluster: Cluster, begun: Path) -> None:
    begun.unlink()
    request = served.send("/")
    wait_until(begun.exists)
    cluster.scheduler.kill()
    for answer in (receive(request), served.request("/")):
        assert (answer.status, "\n" in answer.body) == (500, False)
        assert "FutureCancelledError" in answer.body
    unready = served.request("/ready")
    assert (unready.status, unready.body.count("the Dask cluster is ")) == (503, 1)


# Send code to each port of a cluster, as a program of another user could, and print what happens.
STRANGER = """
import asyncio, os, sys
from distributed.core import rpc
from distributed.protocol.pickle import dumps

async def run_code(port):
    async with rpc(f"tcp://127.0.0.1:{port}", timeout=5) as remote:
        kind = (await remote.identity())["type"]
        if kind == "Scheduler":
            await remote.run_function(function=dumps(os.getpid), wait=True)
        else:
            await remote.run(function=dumps(os.getpid), args=dumps(()), kwargs=dumps({}))
        return f"{kind} ran code"

async def go():
    asked = [asyncio.wait_for(run_code(port), 10) for port in sys.argv[1:]]
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        print(answer if isinstance(answer, str) else "refused")

asyncio.run(go())
"""


def test_the_cluster_of_the_server_runs_no_code_of_other_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with serving(SERVER, "--workers", "1", "--task", "sign_up") as served:
        sockets = [one for process in served.family() for one in process.net_connections("tcp")]
        ports = {one.laddr.port for one in sockets if one.status == psutil.CONN_LISTEN} - {served.port}
        command = [sys.executable, "-c", STRANGER, *map(str, sorted(ports))]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        assert len(ports) > 3
        assert ran.stdout.split("\n")[:-1] == ["refused"] * len(ports), ran.stderr
        assert served.request().status == 200
        (private,) = {path.parent for path in tmp_path.rglob("dask-scratch-space")}
        assert private != tmp_path
        assert private.stat().st_mode & 0o077 == 0  # workers import the files in it
        served.process.terminate()
        assert served.process.wait(timeout=LIMIT_S) == 0
    assert not private.exists()


def test_the_dask_server_exits_with_an_error_if_the_scheduler_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", "tcp://127.0.0.1:1")
    process = start(SERVER, "--port", "0")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors.count("\n")) == (2, "", 1)
    assert "tcp://127.0.0.1:1" in errors
