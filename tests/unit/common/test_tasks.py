"""Tasks: how they are run, measured, rejected and stopped."""

import asyncio
import os
import pickle
import re
import time

import pytest
from conftest import SUPPORT

from common.task import BUILTIN_TASKS, TaskError, UnknownTaskError, perform, perform_in_slices, resolve


@pytest.fixture(autouse=True)
def in_tests_folder(monkeypatch):
    monkeypatch.chdir(SUPPORT)


@pytest.mark.parametrize("task", [*BUILTIN_TASKS, "sample_tasks:short", "sample_tasks:in_slices"])
def test_a_task_returns_the_same_result_in_one_piece_and_in_slices(task: str) -> None:
    assert perform(task).answer == asyncio.run(perform_in_slices(task)).answer


def test_a_task_with_a_bare_yield_returns_its_result() -> None:
    assert perform("sample_tasks:yields_nothing").answer == "42"
    assert asyncio.run(perform_in_slices("sample_tasks:yields_nothing")).answer == "42"


def test_a_task_run_records_its_worker_and_times_and_can_be_pickled() -> None:
    before = time.monotonic()
    run = perform("primes")
    assert before <= run.started_s < run.finished_s <= time.monotonic()
    assert 0 < run.cpu_s <= (run.finished_s - run.started_s) * 1.05
    assert re.fullmatch(rf"{os.getpid()}/\d+", run.worker)
    assert pickle.loads(pickle.dumps(run)) == run  # noqa: S301


def test_an_io_bound_task_reports_little_cpu_time() -> None:
    run = perform("sign_up")
    assert run.finished_s - run.started_s >= 0.28
    assert run.cpu_s < 0.1


def test_the_cpu_time_of_a_task_excludes_concurrent_tasks() -> None:
    async def together():
        return await asyncio.gather(*(perform_in_slices("primes") for _ in range(4)))

    alone = min(perform("primes").cpu_s for _ in range(5))
    for run in asyncio.run(together()):
        assert run.cpu_s < 2.5 * alone  # with the CPU time of the concurrent tasks, it would be four times as much
        assert run.finished_s - run.started_s > 2 * alone


def test_a_task_that_runs_in_slices_lets_other_tasks_run() -> None:
    async def together():
        ticks = 0
        task = asyncio.create_task(perform_in_slices("primes"))
        while not task.done():
            await asyncio.sleep(0)
            ticks += 1
        return ticks

    assert asyncio.run(together()) > 20


def test_exceptions_of_tasks_are_shortened_to_one_line_and_can_be_pickled() -> None:
    with pytest.raises(TaskError) as caught:
        perform("sample_tasks:raises")
    assert str(caught.value) == "ValueError: the first line and a second one"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        ("nothing", "expected primes, digest, sign_up, or your own as module:function"),
        ("", "unknown task ''"),
        (":f", "unknown task ':f'"),
        ("sample_tasks:", "unknown task"),
        ("sample_tasks:missing", "can't import task 'sample_tasks:missing'"),
        ("no_such:f", "ModuleNotFoundError: No module named 'no_such'"),
        ("sample_tasks:NOT_CALLABLE", "has the type int; expected a function"),
        ("sample_tasks:is_async_generator", "is an async generator function; expected an async function"),
        ("sample_tasks:needs_arguments", "can't be called without arguments"),
    ],
)
def test_invalid_tasks_cause_a_one_line_error(spec: str, error: str) -> None:
    with pytest.raises(UnknownTaskError, match=re.escape(error)) as caught:
        resolve(spec)
    assert "\n" not in str(caught.value)


def test_ctrl_c_stops_a_task() -> None:
    with pytest.raises(KeyboardInterrupt):
        perform("sample_tasks:raises_keyboard_interrupt")
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(perform_in_slices("sample_tasks:raises_keyboard_interrupt"))
