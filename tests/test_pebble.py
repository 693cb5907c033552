"""9_async_pebble: lost workers are replaced, tasks can be stopped, and nobody else notices."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from conftest import LIMIT_S, ROOT, Served, gone, receive, serving, wait_until

SERVER = ROOT / "servers" / "9_async_pebble.py"


def workers(served: Served) -> list[psutil.Process]:
    """The processes of the pool: the children of the fork server."""
    parents = {}
    for process in psutil.Process(served.process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            parents[process] = process.ppid()
    others = {served.process.pid, *parents.values()}
    return [one for one, parent in parents.items() if one.pid not in others and parent != served.process.pid]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """With two workers that are busy for half a second with each request."""
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    with serving(SERVER, "--workers", "2", "--task", "sample_tasks:half_a_second_of_computing") as started:
        yield started


def test_a_killed_worker_costs_at_most_the_request_that_it_had(served: Served, tmp_path: Path) -> None:
    requests = [served.send("/") for _ in range(6)]
    wait_until((tmp_path / "begun").exists)
    wait_until(lambda: len(workers(served)) == 2)
    lost = workers(served)[0]
    os.kill(lost.pid, signal.SIGKILL)
    answers = [receive(request) for request in requests]
    failed = [answer for answer in answers if answer.status != 200]
    assert len(failed) <= 1
    assert {answer.body for answer in answers if answer.status == 200} == {"computed"}
    for answer in failed:
        assert (answer.status, answer.body.count("\n")) == (500, 0)
        assert "Abnormal termination" in answer.body
    wait_until(lambda: len(workers(served)) == 2 and gone(lost))


def test_a_fork_server_that_is_killed_costs_at_most_what_its_workers_had() -> None:
    """They live on without it for a moment, and must neither take a request with them nor a lock."""
    with (
        serving(SERVER, "--workers", "2", "--task", "sample_tasks:a_blink_of_computing") as served,
        ThreadPoolExecutor(4) as users,
    ):
        assert served.request("/").body == "computed"
        before = wait_until(lambda: workers(served) if len(workers(served)) == 2 else None)
        enough, statuses = threading.Event(), list[int]()

        def ask() -> None:
            while not enough.is_set():
                statuses.append(served.request("/").status)

        asking = [users.submit(ask) for _ in range(4)]
        wait_until(lambda: len(statuses) >= 4)
        before[0].parent().kill()
        wait_until(lambda: all(gone(one) for one in before) and len(workers(served)) == 2)
        enough.set()
        for one in asking:
            one.result()
        assert set(statuses) <= {200, 500}
        assert statuses.count(500) <= 2
        assert served.request("/").body == "computed"


def test_a_worker_that_is_killed_while_it_has_nothing_to_do_is_replaced(served: Served) -> None:
    assert served.request("/").status == 200
    before = wait_until(lambda: workers(served) if len(workers(served)) == 2 else None)
    for worker in before:
        with contextlib.suppress(ProcessLookupError):  # the pool may have ended it with the other one
            os.kill(worker.pid, signal.SIGKILL)
    wait_until(lambda: len(workers(served)) == 2 and not set(workers(served)) & set(before))
    assert served.request("/").body == "computed"


def test_a_client_that_leaves_frees_the_worker_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    with serving(SERVER, "--workers", "1", "--task", "sample_tasks:half_a_minute_of_computing") as served:
        connection = served.send("/")
        wait_until((tmp_path / "begun").exists)
        (busy,) = wait_until(lambda: workers(served))
        connection.close()
        wait_until(lambda: gone(busy), 20)  # it would have computed for half a minute
        served.process.terminate()  # nothing is in progress that it would have to finish
        assert served.process.wait(timeout=LIMIT_S) == 0
        assert served.process.stderr.read() == ""  # as it would not be if the grace had ended it


def test_clients_that_leave_end_only_the_worker_that_works_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more than its workers need may have been handed over."""
    begun, told = tmp_path / "begun", tmp_path / "told"
    monkeypatch.setenv("BEGUN", str(begun))
    monkeypatch.setenv("TOLD", str(told))
    with serving(SERVER, "--workers", "1", "--queue", "20", "--task", "sample_tasks:waits_to_be_told") as served:
        leaving = [served.send("/") for _ in range(10)]
        wait_until(begun.exists)
        (worker,) = wait_until(lambda: workers(served))
        for connection in leaving:
            connection.close()
        wait_until(lambda: gone(worker))
        last = served.send("/")
        told.touch()
        assert receive(last).body == "told"
        assert len(begun.read_text()) <= 5  # of eleven; that the others have left may be seen a little later


def test_a_task_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    impatient = tmp_path / SERVER.name
    impatient.write_text(SERVER.read_text().replace("TIME_LIMIT_S = 60", "TIME_LIMIT_S = 0.2"))
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    with serving(impatient, "--workers", "1", "--task", "sample_tasks:half_a_minute_of_computing") as served:
        answer = served.request("/")
        assert (answer.status, answer.body) == (500, "the task was stopped at its time limit")
        assert served.request("/ping").body == "pong"
