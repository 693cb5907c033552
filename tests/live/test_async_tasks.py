"""`async def` tasks run on an event loop of their own or on that of the server, and their runs are measured."""

import asyncio
import itertools
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT, SUPPORT, receive, serving
from sample_tasks import _use_cpu

from common.task import TaskError, TaskRun, perform, perform_in_slices


@pytest.fixture(autouse=True)
def in_tests_folder(monkeypatch):
    monkeypatch.chdir(SUPPORT)


def in_slices(task: str) -> TaskRun:
    return asyncio.run(perform_in_slices(f"sample_tasks:{task}"))


def blocking(task: str) -> TaskRun:
    return perform(f"sample_tasks:{task}")


def blocking_on_a_loop(task: str) -> TaskRun:
    """Run the task in an async handler without awaiting it, as 2_async does."""

    async def handler() -> TaskRun:
        return perform(f"sample_tasks:{task}")

    return asyncio.run(handler())


def in_a_thread(task: str) -> TaskRun:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(blocking, task).result()


every_way = pytest.mark.parametrize("way", [blocking, in_slices, blocking_on_a_loop, in_a_thread])


@every_way
def test_async_tasks_report_their_compute_spans(way) -> None:
    run = way("awaits")
    assert run.answer == "42"
    assert 0.005 <= run.cpu_s < 0.1
    assert run.finished_s - run.started_s >= 0.15
    pairs = list(itertools.pairwise(run.spans))
    steps_s = sorted(after.from_s - before.from_s for before, after in pairs)
    assert [least_s <= step_s for least_s, step_s in zip((0.049, 0.099), steps_s[-2:], strict=True)] == [True] * 2
    assert max(after.from_s - before.to_s for before, after in pairs) > 0.02  # the task sleeps in between
    assert sum(stretch.cpu_s for stretch in run.spans) == run.cpu_s
    assert pickle.loads(pickle.dumps(run)) == run  # noqa: S301


def test_cpu_time_of_an_async_task_excludes_other_tasks_that_run_while_it_awaits() -> None:
    async def together() -> list[TaskRun]:
        busy = asyncio.create_task(computing())
        runs = await asyncio.gather(*(perform_in_slices("sample_tasks:awaits") for _ in range(3)))
        busy.cancel()
        return runs

    async def computing() -> None:
        while True:
            await asyncio.sleep(0)
            _use_cpu(0.03)

    began_s = time.thread_time()
    runs = asyncio.run(together())
    assert time.thread_time() - began_s > 0.06  # the busy task ran in both waits
    # If the busy task were counted, each run would have at least 0.03 s of CPU time. The minimum is compared because
    # a stall of the machine lengthens only one run.
    assert min(run.cpu_s for run in runs) < 0.02
    for run in runs:
        assert run.cpu_s >= 0.005
        for stretch in run.spans:
            assert stretch.cpu_s <= stretch.to_s - stretch.from_s + 0.001


def test_other_tasks_run_while_an_async_task_awaits() -> None:
    async def together() -> list[TaskRun]:
        return await asyncio.gather(*(perform_in_slices("sample_tasks:awaits") for _ in range(5)))

    runs = asyncio.run(together())
    assert max(run.started_s for run in runs) < min(run.finished_s for run in runs)


@every_way
@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("raises_in_a_group", "KeyError: 'in a group'"),
        ("times_out", "TimeoutError"),
        ("exits_later", "SystemExit: at last"),
        ("raises_generator_exit_later", "GeneratorExit: by hand"),
    ],
)
def test_an_exception_of_an_async_task_becomes_a_one_line_task_error(way, task: str, line: str) -> None:
    with pytest.raises(TaskError) as caught:
        way(task)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_running_async_task_can_be_cancelled() -> None:
    async def cancelled() -> None:
        task = asyncio.create_task(perform_in_slices("sample_tasks:awaits"))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


@pytest.mark.parametrize("name", ["3_async_threadexecutor", "5_asyncio", "6_gevent"])
def test_async_tasks_of_several_requests_run_concurrently_and_take_turns_at_each_await(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task computes, awaiting between its slices, until three have begun."""
    monkeypatch.setenv("BEGUN", str(tmp_path / "begun"))
    with serving(ROOT / "servers" / f"{name}.py", "--task", "sample_tasks:meets_two_others") as served:
        assert [receive(one).body for one in [served.send() for _ in range(3)]] == ["met"] * 3
