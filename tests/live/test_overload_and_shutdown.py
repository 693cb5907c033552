"""Servers that are killed leave no process and no port, and `--queue` alone refuses requests."""

import contextlib
import select
from pathlib import Path

import pytest
from conftest import LIMIT_S, ROOT, Served, gone, is_free, receive, serving, wait_until

WORK = """
import time
from pathlib import Path

def work():
    Path("begun").touch()
    if Path("long").exists():
        time.sleep(float(Path("long").read_text()))
    return "of the user"
"""
# How long a task may take that runs when its server is killed. The processes of gunicorn look for their parent only
# between tasks.
TASK_S = {
    "4_async_processexecutor": 100,
    "8_prefork": 1,
    "9_async_pebble": 100,
    "10_async_dask": 100,
    "12_async_celery": 100,
    "13_gunicorn_dirty": 1,
}
OF_EACH_FRAMEWORK = ["3_async_threadexecutor", "5_asyncio", "6_gevent", "11_fastapi"]


@pytest.mark.parametrize("name", TASK_S)
def test_a_killed_server_leaves_no_worker_processes(name: str, tmp_path: Path) -> None:
    """Run a task of a user's module named `common`, and kill the server during the task."""
    (tmp_path / "common.py").write_text(WORK)
    with serving(ROOT / "servers" / f"{name}.py", "--task", "common:work", cwd=tmp_path) as served:
        assert served.request("/").body == "of the user"
        (tmp_path / "begun").unlink()
        (tmp_path / "long").write_text(str(TASK_S[name]))
        with contextlib.closing(served.send("/")):
            wait_until((tmp_path / "begun").exists)
            family = served.family()
            assert len(family) > 1
            served.process.kill()
            wait_until(lambda: all(map(gone, family)) and is_free(served.port))


@pytest.mark.parametrize("name", OF_EACH_FRAMEWORK)
def test_with_a_queue_of_2_a_server_with_1_worker_refuses_the_4th_request(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    monkeypatch.setenv("TOLD", str(told))
    task = ("--task", "sample_tasks:waits_for_file_in_slices")
    with serving(ROOT / "servers" / f"{name}.py", *task, "--workers", "1", "--queue", "2") as served:
        for _ in range(2):  # the second time, the requests of the first are no longer counted
            told.unlink(missing_ok=True)
            check_that_three_of_eight_are_admitted(served, told)


def check_that_three_of_eight_are_admitted(served: Served, told: Path) -> None:
    waiting = {connection.sock: connection for connection in [served.send("/") for _ in range(8)]}
    for _ in range(5):
        (socket, *_), _, _ = select.select(waiting, [], [], LIMIT_S)
        refused = receive(waiting.pop(socket))
        assert (refused.status, int(refused.headers["retry-after"]) > 0) == (503, True)
    assert select.select(waiting, [], [], 0.1)[0] == []
    assert served.request("/ping").body == "pong"
    assert served.request("/ready").status == 200
    told.touch()
    assert [receive(connection).body for connection in waiting.values()] == ["told"] * 3
