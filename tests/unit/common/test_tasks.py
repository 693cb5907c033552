"""Tasks: how they are run, measured, rejected and stopped."""

import asyncio
import os
import pickle
import time

import pytest
from conftest import SUPPORT

from common.task import TaskError, UnknownTaskError, perform, perform_in_slices, resolve


@pytest.fixture(autouse=True)
def in_tests_folder(monkeypatch):
    monkeypatch.chdir(SUPPORT)


ANSWERS = {"primes": "4017", "sample_tasks:short": "short", "sample_tasks:yields_nothing": "42"}


@pytest.mark.parametrize("task", ANSWERS)
def test_a_task_returns_the_same_result_in_one_piece_and_in_slices(task: str) -> None:
    assert perform(task).answer == asyncio.run(perform_in_slices(task)).answer == ANSWERS[task]


def test_a_task_run_records_its_worker_and_times_and_can_be_pickled() -> None:
    before = time.monotonic()
    run = perform("primes")
    assert before <= run.started_s < run.finished_s <= time.monotonic()
    assert 0 < run.cpu_s <= (run.finished_s - run.started_s) * 1.05
    assert run.worker.startswith(f"{os.getpid()}/")
    assert pickle.loads(pickle.dumps(run)) == run  # noqa: S301


def test_an_io_bound_task_waits_and_reports_little_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    waited_s: list[float] = []
    monkeypatch.setattr("time.sleep", waited_s.append)
    assert perform("sign_up").cpu_s < 0.1
    assert sum(waited_s) == pytest.approx(0.28)


def test_the_cpu_time_of_a_task_excludes_concurrent_tasks() -> None:
    async def together():
        return await asyncio.gather(*(perform_in_slices("primes") for _ in range(4)))

    alone = min(perform("primes").cpu_s for _ in range(3))
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


WRONG_NAMES = ["nothing", "", ":f", "sample_tasks:", "sample_tasks:missing", "no_such:f"]
WRONG_KINDS = ["sample_tasks:NOT_CALLABLE", "sample_tasks:is_async_generator", "sample_tasks:needs_arguments"]


def test_invalid_tasks_cause_a_one_line_error(golden) -> None:
    errors = []
    for spec in (*WRONG_NAMES, *WRONG_KINDS):
        with pytest.raises(UnknownTaskError) as caught:
            resolve(spec)
        errors.append(str(caught.value))
    assert all(map(str.isprintable, errors))
    golden(*errors)


def test_ctrl_c_stops_a_task() -> None:
    with pytest.raises(KeyboardInterrupt):
        perform("sample_tasks:raises_keyboard_interrupt")
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(perform_in_slices("sample_tasks:raises_keyboard_interrupt"))
