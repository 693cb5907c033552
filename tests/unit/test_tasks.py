"""Tasks: performed, refused, measured."""

import asyncio
import pickle
import re
import signal
import time

import pytest
from conftest import SUPPORT
from greenlet import GreenletExit

from common.task import TaskError, UnknownTaskError, perform, perform_in_slices, resolve
from common.task.builtin import BUILTIN_TASKS


@pytest.fixture(autouse=True)
def in_tests_folder(monkeypatch):
    monkeypatch.chdir(SUPPORT)


@pytest.mark.parametrize("task", [*BUILTIN_TASKS, "sample_tasks:short", "sample_tasks:in_slices"])
def test_both_ways_of_performing_give_the_same_answer(task: str) -> None:
    assert perform(task).answer == asyncio.run(perform_in_slices(task)).answer


def test_a_bare_yield_lets_others_run_and_waits_for_nothing() -> None:
    assert perform("sample_tasks:yields_nothing").answer == "42"
    assert asyncio.run(perform_in_slices("sample_tasks:yields_nothing")).answer == "42"


def test_a_run_tells_when_where_and_how_much_cpu_and_can_be_sent_to_another_process() -> None:
    before = time.monotonic()
    run = perform("primes")
    assert before <= run.started_s < run.finished_s <= time.monotonic()
    assert 0 < run.cpu_s <= (run.finished_s - run.started_s) * 1.05
    assert re.fullmatch(r"\d+/MainThread", run.worker)
    assert pickle.loads(pickle.dumps(run)) == run  # noqa: S301


def test_waiting_costs_no_cpu() -> None:
    run = perform("sign_up")
    assert run.finished_s - run.started_s >= 0.28
    assert run.cpu_s < 0.1


def test_what_others_compute_in_the_pauses_is_not_counted_as_the_tasks_cpu() -> None:
    async def together():
        return await asyncio.gather(*(perform_in_slices("primes") for _ in range(4)))

    alone = min(perform("primes").cpu_s for _ in range(5))
    for run in asyncio.run(together()):
        assert run.cpu_s < 2.5 * alone  # and not four times
        assert run.finished_s - run.started_s > 2 * alone


def test_slices_let_others_run() -> None:
    async def together():
        ticks = 0
        task = asyncio.create_task(perform_in_slices("primes"))
        while not task.done():
            await asyncio.sleep(0)
            ticks += 1
        return ticks

    assert asyncio.run(together()) > 20


def test_what_a_task_raises_becomes_one_line_that_can_be_sent() -> None:
    with pytest.raises(TaskError) as caught:
        perform("sample_tasks:raises")
    assert str(caught.value) == "ValueError: the first line and a second one"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("nothing", "expected primes, digest, sign_up, or your own as module:function"),
        ("", "unknown task ''"),
        (":f", "unknown task ':f'"),
        ("sample_tasks:", "unknown task"),
        ("sample_tasks:missing", "cannot import task 'sample_tasks:missing'"),
        ("no_such:f", "ModuleNotFoundError: No module named 'no_such'"),
        ("sample_tasks:NOT_CALLABLE", "is a int, not a function"),
        ("sample_tasks:is_async_generator", "is an async generator function; expected an async function"),
        ("sample_tasks:needs_arguments", "can't be called without arguments"),
    ],
)
def test_what_is_no_task_is_refused_with_one_line(spec: str, complaint: str) -> None:
    with pytest.raises(UnknownTaskError, match=re.escape(complaint)) as caught:
        resolve(spec)
    assert "\n" not in str(caught.value)


def test_ctrl_c_ends_a_task_where_python_raises_it(monkeypatch) -> None:
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        perform("sample_tasks:raises_keyboard_interrupt")
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    with pytest.raises(TaskError, match="KeyboardInterrupt: by hand"):
        perform("sample_tasks:raises_keyboard_interrupt")


def test_a_greenlet_that_is_killed_ends(monkeypatch) -> None:
    def killed(_: float) -> None:
        raise GreenletExit

    monkeypatch.setattr(time, "sleep", killed)
    with pytest.raises(GreenletExit):
        perform("sample_tasks:in_slices")
