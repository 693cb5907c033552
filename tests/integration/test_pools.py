"""Ready-made worker pools behind Tornado: the effects of lost workers and of clients that disconnect."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import LIMIT_S, ROOT, Served, gone, receive, serving, wait_until

from common import lifecycle

THREADS, PROCESSES = "3_async_threadexecutor", "4_async_processexecutor"
PEBBLE, DASK = "9_async_pebble", "10_async_dask"
BROKEN = "503 Service Unavailable: the worker pool is broken; restart the server"
Serve = Callable[..., contextlib.AbstractContextManager[Served]]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Start a server whose tasks write to the files `begun` and `done`, and may wait for the file `told`."""
    for name in ("begun", "done", "told"):
        monkeypatch.setenv(name.upper(), str(tmp_path / name))
    (tmp_path / "begun").touch()

    def start(name: str, task: str, workers: int = 2) -> contextlib.AbstractContextManager[Served]:
        script = ROOT / "servers" / f"{name}.py"
        return serving(script, "--workers", str(workers), "--queue", "40", "--task", f"sample_tasks:{task}")

    return start


def begun(folder: Path) -> int:
    return len((folder / "begun").read_text())


def a_worker(served: Served, folder: Path) -> psutil.Process:
    """Return the worker process that answers a request. Afterwards, tasks wait for the file `told` again."""
    (folder / "told").touch()
    answer = served.request("/")
    assert (answer.status, answer.body) == (200, "told")
    (folder / "told").unlink()
    (folder / "begun").write_text("")
    pid = int(answer.headers["x-worker"].split("/")[0])
    return next(process for process in served.family() if process.pid == pid)


def must_be_broken(served: Served) -> None:
    """Check that requests fail, `/ready` reports the reason, pings succeed and SIGTERM ends all processes."""
    for _ in range(2):
        answer = served.request("/")
        assert (answer.status, len(answer.body.splitlines())) == (500, 1)
        unready = served.request("/ready")
        assert (unready.status, unready.body) == (503, BROKEN)
    assert served.request("/ping").body == "pong"
    family = served.family()
    served.process.terminate()
    assert served.process.wait(timeout=LIMIT_S) == 0
    assert (served.process.stdout.read(), served.process.stderr.read()) == ("", "")
    wait_until(lambda: all(gone(process) for process in family))


def test_a_killed_worker_breaks_a_process_pool_executor_permanently(serve: Serve, tmp_path: Path) -> None:
    with serve(PROCESSES, "waits_for_file") as served:
        worker = a_worker(served, tmp_path)
        requests = [served.send("/") for _ in range(5)]
        wait_until(lambda: begun(tmp_path) == 2)
        assert served.request("/ready").status == 200
        fork_server = worker.parent()
        worker.kill()
        answers = [receive(request) for request in requests]
        wait_until(lambda: all(gone(process) for process in fork_server.children()))
        assert [(answer.status, answer.body) for answer in answers] == [(500, answers[0].body)] * 5
        assert answers[0].body.startswith("BrokenProcessPool: ")
        must_be_broken(served)


@pytest.mark.parametrize(("name", "notices"), [(PROCESSES, "/"), (PEBBLE, "/ready")])
def test_killing_an_idle_worker_breaks_the_pools_of_process_pool_executor_and_pebble(
    name: str, notices: str, serve: Serve, tmp_path: Path
) -> None:
    """Pebble replaces a lost worker only while tasks run."""
    with serve(name, "waits_for_file") as served:
        worker = a_worker(served, tmp_path)
        (tmp_path / "told").touch()
        worker.kill()
        wait_until(lambda: served.request(notices).status != 200)
        must_be_broken(served)


@pytest.mark.parametrize(("name", "lost"), [(PEBBLE, 1), (DASK, 0)])
def test_pebble_and_dask_replace_a_worker_killed_during_a_task(
    name: str, lost: int, serve: Serve, tmp_path: Path
) -> None:
    with serve(name, "waits_for_file") as served:
        worker = a_worker(served, tmp_path)
        requests = [served.send("/") for _ in range(6)]
        wait_until(lambda: begun(tmp_path) == 2)
        worker.kill()
        wait_until(lambda: gone(worker))
        (tmp_path / "told").touch()
        answers = [receive(request) for request in requests]
        failed = [answer for answer in answers if answer.body != "told"]
        assert [(answer.status, len(answer.body.splitlines())) for answer in failed] == [(500, 1)] * lost
        (tmp_path / "told").unlink()
        (tmp_path / "begun").write_text("")
        requests = [served.send("/") for _ in range(2)]
        wait_until(lambda: begun(tmp_path) == 2)  # both workers run tasks again
        (tmp_path / "told").touch()
        assert [receive(request).body for request in requests] == ["told"] * 2
        assert served.request("/ready").status == 200


@pytest.mark.parametrize(
    ("name", "task", "most_begun"),
    [
        (THREADS, "waits_for_file", 2),
        (
            PROCESSES,
            "waits_for_file",
            5,
        ),  # two are running, and the executor has already passed three more to the workers
        (DASK, "half_a_second", 10),  # the disconnects reach the cluster a little later
    ],
)
def test_cancelled_requests_in_the_queue_are_not_computed(
    name: str, task: str, most_begun: int, serve: Serve, tmp_path: Path
) -> None:
    with serve(name, task) as served:
        leaving = [served.send("/") for _ in range(20)]
        wait_until(lambda: begun(tmp_path))
        for connection in leaving:
            connection.close()
        assert [served.request("/ping").body for _ in range(3)] == [
            "pong"
        ] * 3  # the server reads these after the disconnects
        (tmp_path / "told").touch()
        assert served.request("/").status == 200
        assert begun(tmp_path) <= most_begun + 1


def test_pebble_stops_a_running_task_when_its_client_disconnects(serve: Serve, tmp_path: Path) -> None:
    with serve(PEBBLE, "waits_for_file", workers=1) as served:
        worker = a_worker(served, tmp_path)
        leaving = served.send("/")
        wait_until(lambda: begun(tmp_path) == 1)
        next_request = served.send("/")
        leaving.close()
        wait_until(lambda: gone(worker) and begun(tmp_path) == 2)
        (tmp_path / "done").unlink()
        (tmp_path / "told").touch()
        assert receive(next_request).body == "told"
        assert (tmp_path / "done").read_text() == "x"
        served.process.terminate()
        assert served.process.wait(timeout=LIMIT_S) == 0
        assert served.process.stderr.read() == ""  # no request was dropped


def test_pebble_stops_a_task_at_its_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient = tmp_path / f"{PEBBLE}.py"
    source = (ROOT / "servers" / impatient.name).read_text()
    impatient.write_text(source.replace("TIME_LIMIT_S = 60", "TIME_LIMIT_S = 0.2"))
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    with serving(impatient, "--workers", "1", "--task", "sample_tasks:half_a_minute_of_computing") as served:
        answer = served.request("/")
        assert (answer.status, answer.body) == (500, "the task was stopped at its time limit")
        assert served.request("/ping").body == "pong"


def test_the_readiness_check_reports_a_broken_pool_rather_than_a_full_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "_unready_reasons", [lambda: "the queue is full"])
    monkeypatch.setattr(lifecycle, "_permanent_reasons", [])
    assert lifecycle.why_not_ready() == "the queue is full"
    lifecycle.unready_until_restart("the pool is broken")
    assert lifecycle.why_not_ready() == "the pool is broken"
