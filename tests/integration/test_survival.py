"""Every server survives more than it can do, and clients that leave; when it ends it leaves nothing."""

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
from conftest import LIMIT_S, ROOT, SERVERS, SUPPORT, Served, gone, is_free, receive, serving, wait_until

from common import admission_queue, disconnects
from common.admission_queue import Turns
from common.options import Options, server_options
from common.server_contract import LONGEST_QUEUE
from under_siege.faults.drill_run import drill_plan
from under_siege.targets.strategies import all_strategies, read_strategy, strategies_suite, with_default_queue

FULL = "the queue is full, 0 requests wait in it"
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
def test_more_than_it_can_do_is_refused_and_who_has_left_costs_nothing(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then Ctrl-C, and that in a folder with a module of the same name as ours."""
    done, chosen = tmp_path / "done", tmp_path / "chosen"
    done.touch()
    chosen.write_text("told_when_done")
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
        # The first, the last, the one that runs, and at most two that a process pool has taken from its queue.
        assert len(done.read_text()) <= 5
        it_refuses(served)
        chosen.write_text("moments_then_half_a_minute")
        told_to_stop_it_finishes_what_it_can_in_five_seconds_and_leaves_nothing(served, signal.SIGINT, tmp_path)


@every_server
def test_told_to_stop_while_it_computes_it_does_the_same(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    task = "sample_tasks:moments_then_half_a_minute_of_computing"
    with tempfile.TemporaryDirectory() as temporary:  # tmp_path is too long for the paths of sockets
        monkeypatch.setenv("TMPDIR", temporary)
        with serving(script, "--workers", "1", "--task", task) as served:
            told_to_stop_it_finishes_what_it_can_in_five_seconds_and_leaves_nothing(served, signal.SIGTERM, tmp_path)
        wait_until(lambda: {path.name for path in Path(temporary).iterdir()} <= {"dask-scratch-space"})


def told_to_stop_it_finishes_what_it_can_in_five_seconds_and_leaves_nothing(
    served: Served, by: signal.Signals, folder: Path
) -> None:
    """Of four requests one is in progress, another waits its turn, and the last to begin would take half a minute."""
    begun = folder / "begun"
    begun.unlink(missing_ok=True)
    connections = [served.send("/") for _ in range(4)]  # one at a time: what waits has been accepted, too
    wait_until(lambda: begun.exists() and len(begun.read_text()) >= 2)
    family = served.family()
    for process in family if by == signal.SIGINT else family[:1]:  # a terminal tells the whole group
        process.send_signal(by)
    answers = []
    for connection in connections:  # nobody says that they begin in the order in which they were sent
        with contextlib.suppress(ConnectionError):
            answers.append(receive(connection))
    told = [(answer.status, answer.body) for answer in answers]
    assert told == [(200, "at last" if by == signal.SIGINT else "computed")] * 3
    assert served.process.wait(timeout=LIMIT_S) == 0
    dropped = f"{served.script.stem}: 1 request dropped, not done within 5 s\n"
    assert (served.process.stdout.read(), served.process.stderr.read()) == ("", dropped)
    wait_until(lambda: all(gone(process) for process in family))
    wait_until(lambda: is_free(served.port))


@every_server
def test_killed_it_leaves_no_worker_behind(script: Path, tmp_path: Path) -> None:
    """Started as simply as can be, and where the user has a `common` of their own; killed in the midst of a task."""
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


def it_refuses(served: Served) -> None:
    """Who asks may be stopped by a busy machine between two requests, so that they are no crowd; not three times."""
    for _ in range(3):
        answers = [receive(connection) for connection in [served.send("/") for _ in range(8)]]
        if any(answer.status != 200 for answer in answers):
            break
    assert {answer.status for answer in answers} == {200, 503}
    for refused in (answer for answer in answers if answer.status == 503):
        assert refused.body.startswith("503 Service Unavailable: the queue is full, ")
        assert "\n" not in refused.body
        assert int(refused.headers["retry-after"]) > 0
    assert served.request("/ready").status == 200


@pytest.mark.parametrize("name", ["5_asyncio", "6_gevent"])
def test_a_task_that_never_gives_way_keeps_nobody_from_being_told(name: str) -> None:
    script = ROOT / "servers" / f"{name}.py"
    with serving(script, "--queue", "3", "--task", "sample_tasks:a_moment_of_computing") as served:
        it_refuses(served)


@pytest.mark.parametrize(
    ("given", "queue"), [((), 40), ((3,), 12), ((40, 50), 50)], ids=["one thread", "processes", "threads"]
)
def test_so_many_may_wait_unless_told_otherwise(given: tuple[int, ...], queue: int, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", ["1_name.py"])
    options = server_options(*given)
    assert (options.queue, options.shares_thread) == (queue, not given)
    monkeypatch.setattr(sys, "argv", ["1_name.py", "--queue", "7"])
    assert server_options(*given).queue == 7


def test_in_a_crowd_the_loop_hears_between_two_that_begin_who_has_come() -> None:
    happened: list[str] = []

    async def ask(turns: Turns, name: str) -> None:
        await turns.mine()
        happened.append(name)
        asyncio.get_running_loop().call_soon(happened.append, f"after {name}")

    async def all_at_once(*, crowded: bool) -> None:
        turns = Turns(lambda: crowded)
        asking = [asyncio.create_task(ask(turns, name)) for name in "abcd"]
        await asyncio.sleep(0)
        asking[1].cancel()
        await asyncio.wait(asking)
        await ask(turns, "e")
        await asyncio.sleep(0)

    asyncio.run(all_at_once(crowded=True))
    assert [one for one in happened if "after" not in one] == ["a", "c", "d", "e"]
    for name, following in itertools.pairwise("acd"):
        assert happened.index(f"after {name}") <= happened.index(following) + 1
    happened.clear()
    asyncio.run(all_at_once(crowded=False))
    assert happened[:3] == ["a", "b", "c"]


def test_it_is_not_ready_while_its_queue_is_full_and_the_ping_lives(
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
            "503 Service Unavailable: the queue is full, 0 requests wait in it",
        )
        assert served.request("/ping").body == "pong"
        assert receive(request).status == 200
        assert served.request("/ready").status == 200


def test_a_task_in_fastapi_ends_where_it_yields_if_its_client_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, told = tmp_path / "begun", tmp_path / "told"
    monkeypatch.setenv("BEGUN", str(begun))
    monkeypatch.setenv("TOLD", str(told))
    script = ROOT / "servers" / "11_fastapi.py"
    with serving(script, "--workers", "1", "--queue", "0", "--task", "sample_tasks:waits_in_slices") as served:
        with contextlib.closing(served.send("/")):
            wait_until(begun.exists)
        after = served.send("/")
        wait_until(lambda: len(begun.read_text()) == 2)  # the only thread has let go of the first
        told.touch()
        assert receive(after).body == "told"


def test_tasks_that_run_look_for_all_clients_together_and_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, looks, left = 0.0, [], []
    monkeypatch.setattr(admission_queue.time, "monotonic", lambda: now_s)

    def look(clients: dict[int, str]) -> list[int]:
        looks.append(sorted(clients.values()))
        return [ticket for ticket, name in clients.items() if name in left]

    ours = admission_queue.Line(Options("name", "127.0.0.1", 8000, "primes", 2, 0), look)
    stays, leaves = ours.join("stays"), ours.join("leaves")
    assert not ours.has_left(leaves)
    left.append("leaves")
    assert not ours.has_left(leaves)  # it was looked just now
    now_s = admission_queue.LOOK_S
    assert not ours.has_left(stays)
    assert ours.has_left(leaves)  # seen by the look of the other
    assert looks == [["leaves", "stays"]] * 2
    assert ours.begun == 1


def test_who_takes_nothing_of_an_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disconnects, "ANSWER_LIMIT_S", 0.01)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        disconnects.limit_answers(ours)
        with pytest.raises(BlockingIOError):
            ours.sendall(bytes(10_000_000))


def test_a_head_that_comes_in_pieces_has_no_more_time_than_one_that_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(disconnects.time, "monotonic", lambda: now_s)
    ours, theirs = socket.socketpair()
    with disconnects.DeadlineSocket(ours) as hasty, hasty.makefile("rb", 0) as file, theirs:
        theirs.sendall(b"GE")
        assert file.read(2) == b"GE"
        now_s = disconnects.HEAD_LIMIT_S
        with pytest.raises(TimeoutError):
            hasty.recv(1)
        hasty.head_is_read()
        theirs.sendall(b"X")
        assert hasty.recv(1) == b"X"
        hasty.shutdown(socket.SHUT_WR)
        now_s += disconnects.LINGER_S
        theirs.sendall(b"X")
        with pytest.raises(TimeoutError):
            hasty.recv(1)


def test_the_bench_sends_no_server_of_ours_more_than_it_takes_but_the_drill_does(tmp_path: Path) -> None:
    for strategy in all_strategies():
        assert ("--queue", str(LONGEST_QUEUE)) in itertools.pairwise(strategy.command)
        assert "--queue" not in with_default_queue(strategy).command
    plan, _ = drill_plan(strategies_suite(["4"]), ["overload"], {"python": ["python3"]}, rounds=1, seed=1)
    assert "--queue" not in plan.targets["4_async_processexecutor"].command
    other = tmp_path / "other.py"
    other.write_text('"""Has options of its own, among them a --port."""\n')
    assert "--queue" not in read_strategy(other).command
