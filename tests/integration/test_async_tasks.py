"""Tasks that are `async def`: on a loop of their own or on that of the server, and what is told of them."""

import asyncio
import itertools
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import SERVERS, SUPPORT, Served, receive, serving
from sample_tasks import _burnt

from common.task import TaskError, TaskRun, perform, perform_in_slices


@pytest.fixture(autouse=True)
def in_tests_folder(monkeypatch):
    monkeypatch.chdir(SUPPORT)


def in_slices(task: str) -> TaskRun:
    return asyncio.run(perform_in_slices(f"sample_tasks:{task}"))


def blocking(task: str) -> TaskRun:
    return perform(f"sample_tasks:{task}")


def blocking_on_a_loop(task: str) -> TaskRun:
    """As the strategy does that has heard of `async def` and not of awaiting."""

    async def handler() -> TaskRun:
        return perform(f"sample_tasks:{task}")

    return asyncio.run(handler())


def in_a_thread(task: str) -> TaskRun:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(blocking, task).result()


every_way = pytest.mark.parametrize("way", [blocking, in_slices, blocking_on_a_loop, in_a_thread])


@every_way
def test_it_is_awaited_and_tells_when_it_computed(way) -> None:
    run = way("awaits")
    assert run.answer == "42"
    assert 0.005 <= run.cpu_s < 0.1
    assert run.finished_s - run.started_s >= 0.15
    pairs = list(itertools.pairwise(run.stretches))
    steps_s = sorted(after.from_s - before.from_s for before, after in pairs)  # it asks to be woken within the former
    assert [least_s <= step_s for least_s, step_s in zip((0.049, 0.099), steps_s[-2:], strict=True)] == [True] * 2
    assert max(after.from_s - before.to_s for before, after in pairs) > 0.02  # and does not compute until then
    assert sum(stretch.cpu_s for stretch in run.stretches) == run.cpu_s
    assert pickle.loads(pickle.dumps(run)) == run  # noqa: S301


@every_way
def test_what_its_own_tasks_compute_is_its_own(way) -> None:
    run = way("awaits_others")
    assert run.answer == "2"
    assert 0.04 <= run.cpu_s < 0.08


def test_what_others_compute_while_it_is_suspended_is_not_its_own() -> None:
    async def together() -> list[TaskRun]:
        busy = asyncio.create_task(computing())
        runs = await asyncio.gather(*(perform_in_slices("sample_tasks:awaits") for _ in range(3)))
        busy.cancel()
        return runs

    async def computing() -> None:
        while True:
            await asyncio.sleep(0)
            _burnt(0.03)

    began_s = time.thread_time()
    runs = asyncio.run(together())
    assert time.thread_time() - began_s > 0.06  # in each of the two waits at least once
    for run in runs:
        assert 0.005 <= run.cpu_s < 0.02
        for stretch in run.stretches:
            assert stretch.cpu_s <= stretch.to_s - stretch.from_s + 0.001


def test_its_waits_let_others_run() -> None:
    async def together() -> list[TaskRun]:
        return await asyncio.gather(*(perform_in_slices("sample_tasks:awaits") for _ in range(5)))

    runs = asyncio.run(together())
    assert max(run.started_s for run in runs) < min(run.finished_s for run in runs)


@every_way
@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("raises_in_a_group", "KeyError: 'in a group'"),
        ("raises_cancelled", "CancelledError: by hand"),
        ("cancels_itself", "CancelledError"),
        ("times_out", "TimeoutError"),
        ("exits_in_a_task", "SystemExit: from within"),
        ("exits_later", "SystemExit: at last"),
        ("raises_generator_exit_later", "GeneratorExit: by hand"),
    ],
)
def test_whatever_it_raises_is_one_line_and_nothing_hangs(way, task: str, line: str) -> None:
    with pytest.raises(TaskError) as caught:
        way(task)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_who_cancels_it_from_outside_is_obeyed() -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(perform_in_slices("sample_tasks:awaits"))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


@every_way
def test_what_it_leaves_behind_does_not_keep_it(way) -> None:
    began_s = time.monotonic()
    assert way("is_left_alone").answer == "done"
    assert time.monotonic() - began_s < 30  # of the 60 s that it would sleep


def test_no_loop_is_left_open(recwarn) -> None:
    for _ in range(3):
        perform("sample_tasks:awaits")
    assert [str(one.message) for one in recwarn if issubclass(one.category, ResourceWarning)] == []


@pytest.mark.parametrize("name", ["3_async_threadexecutor", "5_asyncio", "6_gevent"])
def test_strategies_that_share_waiting_share_its_awaits(name: str) -> None:
    script = next(path for path in SERVERS if path.stem == name)
    with serving(script, "--task", "sample_tasks:awaits") as served:
        all_of_them = stretches_of(served, 3)
        assert max(ran[0] for ran in all_of_them) < min(ran[-1] for ran in all_of_them)


def stretches_of(served: Served, requests: int) -> list[list[float]]:
    """When the tasks of so many requests at once ran, in seconds of one clock."""
    told = [receive(one).headers["x-ran"].split() for one in [served.send() for _ in range(requests)]]
    return [[float(zero) + float(ran.split("/")[0]) / 1000 for ran in stretches] for zero, *stretches in told]


@pytest.mark.parametrize("name", ["5_asyncio", "6_gevent"])
def test_one_that_only_computes_gives_way_where_it_awaits(name: str) -> None:
    script = next(path for path in SERVERS if path.stem == name)
    with serving(script, "--task", "sample_tasks:computes_in_async_slices") as served:
        one, other = stretches_of(served, 2)
        assert max(one[0], other[0]) < min(one[-1], other[-1])  # each began before the other had ended
