"""4_async_processexecutor: its pool outlives its processes, and who is to blame is told from who was beside it."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from conftest import LIMIT_S, ROOT, Served, gone, receive, serving, wait_until

from common.process_tree import children
from under_siege.processes.managed_process import processes

SERVER = ROOT / "servers" / "4_async_processexecutor.py"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Callable[[str], None], Path]]:
    """The process pool with two workers; what tells it what to do, and the file that says that a task has begun."""
    folder = tmp_path_factory.mktemp("pool")
    chosen, begun = folder / "task", folder / "begun"
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CHOSEN", str(chosen))
        patched.setenv("BEGUN", str(begun))
        with serving(SERVER, "--workers", "2", "--queue", "20", "--task", "sample_tasks:chosen") as served:

            def choose(task: str) -> None:
                begun.unlink(missing_ok=True)
                chosen.write_text(task)

            yield served, choose, begun
            served.process.terminate()
            assert served.process.wait(timeout=LIMIT_S) == 0
            assert served.process.stderr.read() == ""


def fork_server(served: Served) -> psutil.Process:
    (found,) = [child for child in processes(children(served.process.pid)) if children(child.pid)]
    return found


def both_workers(served: Served) -> list[psutil.Process]:
    return processes(children(fork_server(served).pid))


@pytest.mark.parametrize("lost", ["a worker", "both workers", "the fork server"])
def test_what_is_lost_with_a_process_of_the_pool_is_done_once_more(pool, lost: str) -> None:
    served, choose, begun = pool
    choose("a_moment")
    requests = [served.send("/") for _ in range(5)]
    wait_until(begun.exists)
    wait_until(lambda: len(both_workers(served)) == 2)
    family = served.family()[1:]
    found = {"a worker": both_workers(served)[:1], "both workers": both_workers(served)}
    for process in found.get(lost, [fork_server(served)]):
        with suppress(psutil.NoSuchProcess):  # the pool ends the second as soon as it misses the first
            process.kill()
    assert [receive(request).body for request in requests] == ["at last"] * 5
    assert served.request("/ready").status == 200
    kept = {process.pid for process in served.family()}
    wait_until(lambda: all(gone(one) for one in family if one.pid not in kept))


def test_a_pool_that_lost_its_workers_while_it_had_nothing_to_do_goes_on(pool) -> None:
    served, choose, _ = pool
    choose("short")
    assert served.request("/").body == "short"
    for worker in both_workers(served):
        with suppress(psutil.NoSuchProcess):  # a pool that saw one of them die may have ended the other by now
            worker.kill()
    assert served.request("/").body == "short"


def test_a_worker_that_stands_still_for_a_while_costs_no_answer(pool) -> None:
    served, choose, begun = pool
    choose("a_moment")
    requests = [served.send("/") for _ in range(3)]
    wait_until(begun.exists)
    stopped = wait_until(lambda: both_workers(served))[0]
    stopped.suspend()
    try:
        choose("short")
        assert served.request("/ping").body == "pong"
    finally:
        stopped.resume()
    assert [receive(request).status for request in requests] == [200] * 3


def test_others_in_the_pool_do_not_suffer_from_one_that_ends_its_process(pool) -> None:
    served, choose, _ = pool
    choose("ends_its_process_once")
    assert [receive(request).body for request in [served.send("/") for _ in range(5)]] == ["at last"] * 5


GUILTY_AND_INNOCENT = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from common.lasting_pool import LastingPool
if __name__ == "__main__":
    with LastingPool(ProcessPoolExecutor, 2, get_context("forkserver")) as pool:
        innocent = [pool.submit(time.sleep, 0.1)]
        guilty = pool.submit(os._exit, 3)
        innocent += [pool.submit(time.sleep, 0.1) for _ in range(4)]
        print([one.result(20) for one in innocent], guilty.exception(20))
"""


def test_only_who_ends_a_process_alone_is_given_up() -> None:
    done = subprocess.run([sys.executable, "-c", GUILTY_AND_INNOCENT], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{[None] * 5} the task ended its process 3 times in a row: given up\n", "")


def test_a_request_that_ends_its_process_again_and_again_is_given_up_and_the_pool_lives(pool) -> None:
    served, choose, _ = pool
    choose("ends_its_process")
    answer = served.request("/")
    assert (answer.status, answer.body) == (500, "the task ended its process 3 times in a row: given up")
    unready = served.request("/ready")
    assert (unready.status, unready.body) == (503, "503 Service Unavailable: the process pool broke 3 times in a row")
    assert served.request("/ping").body == "pong"
    wait_until(lambda: served.request("/ready").status == 200)  # it has been tried
    choose("short")
    assert served.request("/").body == "short"
