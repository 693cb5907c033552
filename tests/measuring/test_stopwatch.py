"""The stopwatch of a task: what it says of who computed when."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from common.task import perform
from common.task.stopwatch import MOST_STRETCHES, Stopwatch, Stretch


def test_a_task_that_only_computes_is_one_stretch() -> None:
    run = perform("digest")
    assert run.stretches[0].from_s == run.started_s
    assert run.stretches[-1].to_s == run.finished_s
    assert sum(stretch.cpu_s for stretch in run.stretches) == run.cpu_s


def test_waiting_is_no_stretch() -> None:
    stretches = perform("sign_up").stretches
    gaps = [after.from_s - before.to_s for before, after in itertools.pairwise(stretches)]
    assert [round(gap, 2) >= wait for gap, wait in zip(gaps, (0.02, 0.06, 0.2), strict=True)] == [True] * 3


@pytest.mark.measures
def test_threads_under_the_gil_take_turns() -> None:
    """Together they compute no longer than one CPU can, however long each of them ran."""
    together = threading.Barrier(3)

    def after_all(task: str):
        together.wait()
        return perform(task)

    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(after_all, ["primes"] * 3))
    span_s = max(run.finished_s for run in runs) - min(run.started_s for run in runs)
    assert sum(run.cpu_s for run in runs) <= 1.05 * span_s
    ran_s = sum(stretch.to_s - stretch.from_s for run in runs for stretch in run.stretches)
    assert ran_s > 1.5 * span_s  # each of them was at it most of the time, by its own clock


def test_there_are_never_too_many_and_nothing_is_lost() -> None:
    stopwatch, cpu_s = Stopwatch(), time.thread_time()
    for _ in range(5 * MOST_STRETCHES):
        stopwatch.start()
        sum(range(1000))
        stopwatch.stop()
        time.sleep(0.00001)
    cpu_s = time.thread_time() - cpu_s
    assert 1 < len(stopwatch.stretches) <= MOST_STRETCHES
    assert 0 < stopwatch.cpu_s() <= cpu_s
    in_order = [at for stretch in stopwatch.stretches for at in (stretch.from_s, stretch.to_s)]
    assert in_order == sorted(in_order)


def test_what_computed_nearly_all_the_time_is_dense() -> None:
    assert Stretch(1.0, 2.0, 0.95).is_dense()
    assert not Stretch(1.0, 2.0, 0.5).is_dense()
