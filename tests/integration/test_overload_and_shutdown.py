"""Overload, disconnecting clients and shutdown: every server sheds load and leaves no processes."""

import asyncio
import contextlib
import itertools
import shutil
import signal
import socket
import sys
import tempfile
from pathlib import Path

import pytest
from common.admission_queue import LoopThrottle
from conftest import LIMIT_S, ROOT, SERVERS, SUPPORT, Served, gone, is_free, receive, serving, wait_until

from common import admission_queue
from common.options import Options, server_options
from under_siege.faults.drill_run import drill_plan
from under_siege.targets.strategies import all_strategies, read_strategy, strategies_suite, with_default_queue

FULL = "the queue is full: 0 waiting"
every_server = pytest.mark.parametrize("script", SERVERS, ids=lambda path: path.stem)
WORK = """
import time
from pathlib import Path

def work():
    if Path("long").exists():
        Path("begun").touch()
        time.sleep(100)
    return "of the user"
"""


@every_server
def test_servers_shed_load_and_do_not_compute_cancelled_requests(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also test Ctrl-C, and a user module named `common`, which the server must not import."""
    done, chosen = tmp_path / "done", tmp_path / "chosen"
    done.touch()
    chosen.write_text("records_when_done")
    monkeypatch.setenv("DONE", str(done))
    monkeypatch.setenv("CHOSEN", str(chosen))
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    shutil.copy(SUPPORT / "sample_tasks.py", tmp_path / "beside_it.py")
    (tmp_path / "common.py").write_text("raise RuntimeError('not this one')")
    options = ("--workers", "1", "--queue", "3", "--task", "beside_it:chosen")
    with serving(script, *options, cwd=tmp_path) as served:
        assert served.request("/").status == 200
        for connection in [served.send("/") for _ in range(4)]:
            connection.close()
        assert served.request("/").body == "at last"
        # Two requests were answered, one was running, and a process pool may have prefetched two more.
        assert len(done.read_text()) <= 5
        check_load_shedding(served)
        chosen.write_text("moments_then_half_a_minute")
        check_graceful_shutdown(served, signal.SIGINT, tmp_path)


@every_server
def test_servers_with_cpu_bound_tasks_shut_down_gracefully(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    task = "sample_tasks:moments_then_half_a_minute_of_computing"
    with tempfile.TemporaryDirectory() as temporary:  # tmp_path is too long for Unix sockets
        monkeypatch.setenv("TMPDIR", temporary)
        with serving(script, "--workers", "1", "--task", task) as served:
            check_graceful_shutdown(served, signal.SIGTERM, tmp_path)
        wait_until(lambda: {path.name for path in Path(temporary).iterdir()} <= {"dask-scratch-space"})


def check_graceful_shutdown(served: Served, by: signal.Signals, folder: Path) -> None:
    """Stop the server during four requests: three finish, and one that would take half a minute is dropped."""
    begun = folder / "begun"
    begun.unlink(missing_ok=True)
    connections = [served.send("/") for _ in range(4)]
    wait_until(lambda: begun.exists() and len(begun.read_text()) >= 2)
    family = served.family()
    for process in family if by == signal.SIGINT else family[:1]:  # a terminal signals the whole process group
        process.send_signal(by)
    answers = []
    for connection in connections:  # any of the four may be dropped: requests may begin in any order
        with contextlib.suppress(ConnectionError):
            answers.append(receive(connection))
    told = [(answer.status, answer.body) for answer in answers]
    assert told == [(200, "at last" if by == signal.SIGINT else "computed")] * 3
    assert served.process.wait(timeout=LIMIT_S) == 0
    dropped = f"{served.script.stem}: dropped 1 request that did not finish within 5 s\n"
    assert (served.process.stdout.read(), served.process.stderr.read()) == ("", dropped)
    wait_until(lambda: all(gone(process) for process in family))
    wait_until(lambda: is_free(served.port))


@every_server
def test_a_killed_server_leaves_no_worker_processes(script: Path, tmp_path: Path) -> None:
    """Start the server with default options and a task in a user module named `common`; kill it during the task."""
    (tmp_path / "common.py").write_text(WORK)
    with serving(script, "--task", "common:work", cwd=tmp_path) as served:
        assert served.request("/").body == "of the user"
        assert int(served.request("/ping").headers["x-workers"]) >= 1
        (tmp_path / "long").touch()
        with contextlib.closing(served.send("/")):
            wait_until((tmp_path / "begun").exists)
            family = served.family()
            served.process.kill()
            wait_until(lambda: all(gone(process) for process in family))
            wait_until(lambda: is_free(served.port))


def check_load_shedding(served: Served) -> None:
    """Check that some of eight simultaneous requests are refused.

    Try up to three times, because a busy machine may delay the client so much that its requests do not overlap.
    """
    for _ in range(3):
        answers = [receive(connection) for connection in [served.send("/") for _ in range(8)]]
        if any(answer.status != 200 for answer in answers):
            break
    assert {answer.status for answer in answers} == {200, 503}
    for refused in (answer for answer in answers if answer.status == 503):
        assert refused.body.startswith("503 Service Unavailable: the queue is full: ")
        assert "\n" not in refused.body
        assert int(refused.headers["retry-after"]) > 0
    assert served.request("/ready").status == 200


@pytest.mark.parametrize("name", ["5_asyncio", "6_gevent"])
def test_servers_shed_load_even_if_tasks_block_the_event_loop(name: str) -> None:
    script = ROOT / "servers" / f"{name}.py"
    with serving(script, "--queue", "3", "--task", "sample_tasks:a_moment_of_computing") as served:
        check_load_shedding(served)


@pytest.mark.parametrize(
    ("concurrency", "queue"), [((), 40), ((3,), 12), ((40, 50), 50)], ids=["one thread", "processes", "threads"]
)
def test_the_default_queue_length_follows_from_the_concurrency_of_the_strategy(
    concurrency: tuple[int, ...], queue: int, monkeypatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["1_name.py"])
    options = server_options(*concurrency)
    assert (options.queue, options.shares_thread) == (queue, not concurrency)
    monkeypatch.setattr(sys, "argv", ["1_name.py", "--queue", "7"])
    assert server_options(*concurrency).queue == 7


def test_a_crowded_event_loop_runs_other_callbacks_between_task_starts() -> None:
    events: list[str] = []

    async def ask(throttle: LoopThrottle, name: str) -> None:
        await throttle.wait()
        events.append(name)
        asyncio.get_running_loop().call_soon(events.append, f"after {name}")

    async def all_at_once(*, crowded: bool) -> None:
        throttle = LoopThrottle(lambda: crowded)
        asking = [asyncio.create_task(ask(throttle, name)) for name in "abcd"]
        await asyncio.sleep(0)
        asking[1].cancel()
        await asyncio.wait(asking)
        await ask(throttle, "e")
        await asyncio.sleep(0)

    asyncio.run(all_at_once(crowded=True))
    assert [one for one in events if "after" not in one] == ["a", "c", "d", "e"]
    for name, following in itertools.pairwise("acd"):
        assert events.index(f"after {name}") <= events.index(following) + 1
    events.clear()
    asyncio.run(all_at_once(crowded=False))
    assert events[:3] == ["a", "b", "c"]


def test_a_full_queue_fails_the_readiness_check_but_not_the_ping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    script = ROOT / "servers" / "3_async_threadexecutor.py"
    with serving(script, "--workers", "1", "--queue", "0", "--task", "sample_tasks:half_a_second") as served:
        assert served.request("/ready").status == 200
        request = served.send("/")
        wait_until((tmp_path / "begun").exists)
        answer = served.request("/ready")
        assert (answer.status, answer.body) == (
            503,
            "503 Service Unavailable: the queue is full: 0 waiting",
        )
        assert served.request("/ping").body == "pong"
        assert receive(request).status == 200
        assert served.request("/ready").status == 200


def test_fastapi_stops_a_task_at_its_next_yield_after_a_disconnect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, told = tmp_path / "begun", tmp_path / "told"
    monkeypatch.setenv("BEGUN", str(begun))
    monkeypatch.setenv("TOLD", str(told))
    script = ROOT / "servers" / "11_fastapi.py"
    with serving(script, "--workers", "1", "--queue", "0", "--task", "sample_tasks:waits_for_file_in_slices") as served:
        with contextlib.closing(served.send("/")):
            wait_until(begun.exists)
        after = served.send("/")
        wait_until(lambda: len(begun.read_text()) == 2)  # the only thread is free again
        told.touch()
        assert receive(after).body == "told"


def test_one_poll_per_interval_detects_the_disconnects_of_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, looks, left = 0.0, [], []
    monkeypatch.setattr(admission_queue.time, "monotonic", lambda: now_s)

    def look(clients: dict[int, str]) -> list[int]:
        looks.append(sorted(clients.values()))
        return [ticket for ticket, name in clients.items() if name in left]

    ours = admission_queue.AdmissionQueue(Options("name", "127.0.0.1", 8000, "primes", 2, 0), look)
    stays, leaves = ours.join("stays"), ours.join("leaves")
    assert not ours.is_disconnected(leaves)
    left.append("leaves")
    assert not ours.is_disconnected(leaves)  # the last poll is too recent
    now_s = admission_queue.CHECK_INTERVAL_S
    assert not ours.is_disconnected(stays)
    assert ours.is_disconnected(leaves)  # found by the poll for the other client
    assert looks == [["leaves", "stays"]] * 2
    assert ours.admitted == 1


def test_sending_to_a_stalled_client_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission_queue, "ANSWER_LIMIT_S", 0.01)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        admission_queue.limit_answers(ours)
        with pytest.raises(BlockingIOError):
            ours.sendall(bytes(10_000_000))


def test_a_client_must_send_the_whole_request_header_before_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(admission_queue.time, "monotonic", lambda: now_s)
    ours, theirs = socket.socketpair()
    with admission_queue.DeadlineSocket(ours) as with_deadline, with_deadline.makefile("rb", 0) as file, theirs:
        theirs.sendall(b"GE")
        assert file.read(2) == b"GE"
        now_s = admission_queue.HEAD_LIMIT_S
        with pytest.raises(TimeoutError):
            with_deadline.recv(1)
        with_deadline.head_is_read()
        theirs.sendall(b"X")
        assert with_deadline.recv(1) == b"X"
        with_deadline.shutdown(socket.SHUT_WR)
        now_s += admission_queue.LINGER_S
        theirs.sendall(b"X")
        with pytest.raises(TimeoutError):
            with_deadline.recv(1)


def test_run_starts_strategies_with_a_long_queue_and_drill_with_the_default_queue(tmp_path: Path) -> None:
    for strategy in all_strategies():
        assert ("--queue", str(LONGEST_QUEUE)) in itertools.pairwise(strategy.command)
        assert "--queue" not in with_default_queue(strategy).command
    plan, _ = drill_plan(strategies_suite(["4"]), ["overload"], {"python": ["python3"]}, rounds=1, seed=1)
    assert "--queue" not in plan.targets["4_async_processexecutor"].command
    other = tmp_path / "other.py"
    other.write_text('"""Has options of its own, among them a --port."""\n')
    assert "--queue" not in read_strategy(other).command
