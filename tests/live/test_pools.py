"""The worker pools of the libraries, when a worker is killed and when a client leaves."""

import contextlib
import http.client
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import LIMIT_S, ROOT, Served, gone, receive, serving, wait_until

PREFORK, DIRTY = "8_prefork", "13_gunicorn_dirty"
PROCESSES, PEBBLE, DASK = "4_async_processexecutor", "9_async_pebble", "10_async_dask"
BROKEN = "the worker pool is broken; restart the server"
Serve = Callable[..., contextlib.AbstractContextManager[Served]]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Serve:
    """Start a server whose tasks write to the files `begun` and `done`, and may wait for the file `told`."""
    for name in ("begun", "done", "told"):
        monkeypatch.setenv(name.upper(), str(tmp_path / name))
    (tmp_path / "begun").touch()

    def start(name: str, task: str, workers: int = 2) -> contextlib.AbstractContextManager[Served]:
        script = ROOT / "servers" / f"{name}.py"
        return serving(script, "--workers", str(workers), "--task", f"sample_tasks:{task}")

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


def wait_for_two_workers(served: Served) -> None:
    """Wait until gunicorn uses both dirty workers in turn: it assigns each request at once, to a worker that is ready.

    A request that is assigned to a worker that dies is answered only after a time limit of 30 s.
    """
    seen = set()

    def both_answered() -> bool:
        answer = served.request("/")
        seen.update([answer.headers["x-worker"]] if answer.status == 200 else [])
        return len(seen) == 2

    wait_until(both_answered)


def busy_workers(served: Served, folder: Path) -> list[http.client.HTTPConnection]:
    """Send requests until both workers run a task: while one is replaced, requests queue for the other."""
    requests: list[http.client.HTTPConnection] = []

    def both_run() -> bool:
        requests.append(served.send("/"))
        return begun(folder) >= 2

    wait_until(both_run)
    return requests


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
    assert served.process.stdout.read() == ""
    wait_until(lambda: all(gone(process) for process in family))


def test_a_worker_killed_during_a_task_breaks_a_process_pool_executor_permanently(serve: Serve, tmp_path: Path) -> None:
    with serve(PROCESSES, "waits_for_file") as served:
        worker = a_worker(served, tmp_path)
        requests = [served.send("/") for _ in range(5)]
        wait_until(lambda: begun(tmp_path) == 2)
        assert served.request("/ready").status == 200
        worker.kill()
        answers = [receive(request) for request in requests]
        assert [(answer.status, answer.body) for answer in answers] == [(500, answers[0].body)] * 5
        assert "\n" not in answers[0].body
        must_be_broken(served)


def test_an_idle_worker_that_is_killed_breaks_a_process_pool_executor(serve: Serve, tmp_path: Path) -> None:
    with serve(PROCESSES, "waits_for_file") as served:
        worker = a_worker(served, tmp_path)
        (tmp_path / "told").touch()
        worker.kill()
        wait_until(lambda: served.request("/").status == 500)
        must_be_broken(served)


@pytest.mark.parametrize(
    ("name", "loses_an_answer"),
    [(PREFORK, True), (PEBBLE, True), pytest.param(DASK, False, marks=pytest.mark.slow), (DIRTY, True)],
)
def test_the_other_pools_replace_a_worker_that_is_killed_during_a_task(
    name: str, loses_an_answer: bool, serve: Serve, tmp_path: Path
) -> None:
    """Only Dask runs the task of the killed worker again."""
    with serve(name, "waits_for_file") as served:
        (tmp_path / "told").touch()
        if name == DIRTY:
            wait_for_two_workers(served)
        worker = a_worker(served, tmp_path)
        requests = [served.send("/") for _ in range(2)]
        wait_until(lambda: begun(tmp_path) == 2)
        worker.kill()
        wait_until(lambda: not psutil.pid_exists(worker.pid))
        (tmp_path / "told").touch()
        bodies = []
        for request in requests:
            with contextlib.suppress(ConnectionError):
                bodies.append(receive(request).body)
        assert (bodies.count("told") < len(requests)) == loses_an_answer
        assert "told" in bodies
        if name == DIRTY:
            wait_for_two_workers(served)
        (tmp_path / "told").unlink()
        (tmp_path / "begun").write_text("")
        requests = busy_workers(served, tmp_path)
        (tmp_path / "told").touch()
        assert {receive(request).body for request in requests} == {"told"}
        assert served.request("/ready").status == 200


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


def test_pebble_stops_a_task_at_its_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient = tmp_path / f"{PEBBLE}.py"
    source = (ROOT / "servers" / impatient.name).read_text()
    assert "TIME_LIMIT_S = 60" in source
    impatient.write_text(source.replace("TIME_LIMIT_S = 60", "TIME_LIMIT_S = 0.2"))
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    with serving(impatient, "--workers", "1", "--task", "sample_tasks:half_a_minute_of_computing") as served:
        answer = served.request("/")
        assert (answer.status, answer.body.count("\n")) == (500, 0)
        assert served.request("/ping").body == "pong"
