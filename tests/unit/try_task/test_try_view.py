"""What `try` shows of simulated profiles of tasks."""

import re
from types import SimpleNamespace

import msgspec
import pytest

from common.task import BUILTIN_TASKS
from under_siege.show.formats.table import rendered
from under_siege.subprocess_scripts import task_profiler
from under_siege.suite.server_files import all_strategies
from under_siege.try_task.recommendation import CANNOT, NO, YES
from under_siege.try_task.task_profile import (
    FirstRun,
    OtherPrograms,
    RepeatedRuns,
    SideEffects,
    TaskProfile,
    ThreadRuns,
    WorkerRun,
    Yields,
)
from under_siege.try_task.task_traits import GIL_HELD_RATIO
from under_siege.try_task.view import view


def found(**steps: object) -> TaskProfile:
    """Return the profile of a task that holds the GIL for 100 ms on a machine with four CPUs."""
    usual = {
        "alone": FirstRun(wall_s=0.1, cpu_s=0.1, answer="x"),
        "again": RepeatedRuns(wall_s=0.1, cpu_s=0.1, runs=5, answers=1),
        "threads": ThreadRuns(alone_s=0.1, two_s=0.2),
        "process": WorkerRun(costs_s=0.001),
    }
    return TaskProfile(python="3.11.7", free_threaded=False, **{"task": "m:f", "cpus": 4, **usual, **steps})


def test_try_without_a_task_tries_all_built_in_tasks(run_cli, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = lambda task, *_: (msgspec.structs.replace(found(), task=task), None)  # noqa: E731
    monkeypatch.setattr("under_siege.try_task.task_profile.profile_task", profile)
    ended = run_cli("try")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert re.findall(r"^(\w+), under Python", ended.stdout, re.MULTILINE) == list(BUILTIN_TASKS)


def test_an_invalid_time_limit_is_rejected(run_cli) -> None:
    ended = run_cli("try", "primes", "--limit", "soon")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "soon" in ended.stderr


def facts(of: TaskProfile) -> dict[str, str]:
    return dict(view(of, all_strategies()).headline[0].facts)


def judged(of: TaskProfile) -> dict[str, str]:
    """Return the judgement on each server, by server number."""
    (table,) = view(of, all_strategies()).tables
    return {name.text.split("_")[0]: judgement.text for name, judgement, _ in (row.cells for row in table.rows)}


def test_the_strategies_worth_a_run_are_listed_in_a_command() -> None:
    shown = view(found(), all_strategies())
    worth = [number for number, judgement in judged(found()).items() if judgement == YES]
    assert shown.notes[0].text.endswith(f"run {' '.join(worth)} --task m:f")
    assert shown.exit_code == 0
    broken = view(found(alone=FirstRun(error="it is broken")), all_strategies())
    assert (broken.notes, broken.exit_code) == ((), 1)


WAITS = RepeatedRuns(wall_s=0.1, cpu_s=0.001, runs=5, answers=1)


@pytest.mark.parametrize(
    ("steps", "advice"),
    [
        ({}, {"3": NO, "4": YES, "5": NO, "8": YES}),  # it holds the GIL
        ({"threads": ThreadRuns(alone_s=0.1, two_s=0.1)}, {"3": YES, "4": YES}),
        ({"again": WAITS}, {"3": YES, "4": NO, "5": NO, "6": YES, "8": NO}),
        ({"again": WAITS, "yields": Yields(yields=3, waits=3)}, {"3": YES, "4": NO, "5": YES, "6": YES}),
        ({"yields": Yields(yields=40)}, {"5": YES}),
        ({"again": RepeatedRuns(wall_s=1e-5, cpu_s=1e-5, runs=5, answers=1)}, {"1": YES, "4": NO}),
        ({"again": RepeatedRuns(wall_s=0.1, cpu_s=0.1, runs=5, answers=5)}, {"1": CANNOT, "4": CANNOT}),
        ({"again": RepeatedRuns(error="RuntimeError: once")}, {"1": CANNOT, "4": CANNOT}),
        ({"alone": FirstRun(error="RecursionError: too deep")}, {"1": CANNOT, "4": CANNOT}),
        ({"process": WorkerRun(error="PicklingError")}, {"3": NO, "4": CANNOT, "8": YES}),
    ],
)
def test_the_judgement_on_each_strategy_follows_from_the_profile(steps: dict, advice: dict[str, str]) -> None:
    found_advice = judged(found(**steps))
    assert {number: found_advice[number] for number in advice} == advice


def test_what_is_unusual_about_a_task_is_reported(golden) -> None:
    profiles = {
        "side effects": found(
            effects=SideEffects(forks=1, children=1, printed_bytes=27), threads=ThreadRuns(0.1, 0.2, threads_left=2)
        ),
        "cache": found(alone=FirstRun(wall_s=2.0, cpu_s=2.0, has_cache=True), task="m:f(2)"),
        "costly result": found(process=WorkerRun(costs_s=0.03, start_s=0.2, sent_bytes=20_000_000)),
        "failure": found(again=RepeatedRuns(error="RuntimeError: once is enough")),
        "time limit": found(alone=None, again=None, threads=None, process=None, stopped="it did not end within 0.5 s"),
    }
    golden("\n\n".join(f"{name}\n{rendered(view(profile, all_strategies()))}" for name, profile in profiles.items()))


def test_the_pauses_of_a_cpu_quota_do_not_make_a_task_io_bound(golden) -> None:
    paused = found(cpus=0.1, again=RepeatedRuns(wall_s=0.5, cpu_s=0.049, runs=3, answers=1))
    golden(facts(paused)["takes"])
    assert judged(paused)["4"] == YES


def test_cpu_use_of_other_programs_is_reported(golden) -> None:
    golden(facts(found(machine=OtherPrograms(others_pct=43.2)))["machine"])
    assert "machine" not in facts(found(machine=OtherPrograms(others_pct=3.0)))


def test_the_gil_use_of_a_multithreaded_task_is_reported_as_unknown(golden) -> None:
    nearly_all, half = (found(again=RepeatedRuns(wall_s=0.1, cpu_s=cpu_s, runs=5, answers=1)) for cpu_s in (0.38, 0.2))
    golden(facts(nearly_all)["takes"], facts(nearly_all)["GIL"])
    assert [judged(nearly_all)[number] for number in "348"] == [YES, NO, NO]
    assert [judged(half)[number] for number in "348"] == [YES, YES, YES]


@pytest.mark.parametrize(
    ("first_s", "others_s", "expected"),
    [(1.0, 0.000002, True), (1.0, 0.05, True), (1.0, 0.5, False), (0.003, 0.000002, False), (0.0, 0.0, False)],
)
def test_a_task_with_a_much_longer_first_run_is_reported_as_possibly_cached(
    first_s: float, others_s: float, expected
) -> None:
    again = RepeatedRuns(wall_s=others_s, cpu_s=others_s, runs=5, answers=1)
    assert ("cached?" in facts(found(alone=FirstRun(wall_s=first_s, cpu_s=first_s), again=again))) == expected


@pytest.mark.parametrize("times", [0.5, 2.0])
@pytest.mark.parametrize(("holds_gil", "two_s"), [(True, 4.0), (False, 2.5)])
def test_single_runs_at_another_cpu_speed_do_not_change_whether_the_gil_is_reported_as_held(
    holds_gil: bool, two_s: float, times: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task waits for 0.5 s and computes for 1.5 s; in single runs, it computes for 1.5 s × `times`."""
    computed_s = 1.5 * times
    monkeypatch.setattr(
        task_profiler, "_once", lambda _: SimpleNamespace(started_s=0.0, finished_s=0.5 + computed_s, cpu_s=computed_s)
    )
    monkeypatch.setattr(task_profiler, "_two_at_once", lambda *_: (two_s, 1.5, 0.0))
    found = msgspec.convert(task_profiler._threads("any"), ThreadRuns)
    assert found.alone_s == pytest.approx(2.0)
    assert (found.two_s > GIL_HELD_RATIO * found.alone_s) == holds_gil
