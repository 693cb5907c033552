"""bench.py try: difficult tasks cause clear messages, do not hang, and leave no processes behind."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from conftest import SERVERS, SUPPORT

from common.task import BUILTIN_TASKS
from under_siege.show.formats.table import rendered
from under_siege.subprocess_scripts import task_profiler
from under_siege.suite.strategies import all_strategies
from under_siege.try_task.recommendations import GIL_HELD_RATIO
from under_siege.try_task.task_profile import FirstRun, OtherPrograms, RepeatedRuns, TaskProfile, ThreadRuns, WorkerRun
from under_siege.try_task.view import view

Try = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run_try(run_cli, tmp_path, monkeypatch) -> Try:
    shutil.copy(SUPPORT / "awkward_tasks.py", tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(name: str, *options: str) -> subprocess.CompletedProcess[str]:
        task = name if name in BUILTIN_TASKS else f"awkward_tasks:{name}"
        return run_cli("try", task, *options)

    return call


def advice(shown: str) -> dict[str, str]:
    """Return the judgement on each server, by server number."""
    found = re.findall(r"^(\d+)_\S+\s+(worth a run|not worth it|cannot work)", shown, re.MULTILINE)
    return dict(found)


def worth_it(ended: subprocess.CompletedProcess[str]) -> str:
    """Check that `try` found a strategy that is worth a run; return the output."""
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def flat(shown: str) -> str:
    return " ".join(shown.split())


@pytest.mark.measures
def test_processes_are_recommended_for_a_task_that_holds_the_gil(run_try: Try) -> None:
    said = worth_it(run_try("primes"))
    assert "held: two threads take" in flat(said)
    assert re.search(r"^ *result +'4017' .*same in \d more runs", said, re.MULTILINE)
    judged = advice(said)
    assert len(judged) == len(SERVERS)
    assert (judged["3"], judged["4"], judged["8"], judged["5"]) == (
        "not worth it",
        "worth a run",
        "worth a run",
        "worth a run",
    )
    assert re.search(r"Measure these: python bench.py run 4 5 6 .*--task primes", flat(said))


@pytest.mark.measures
def test_threads_are_recommended_for_a_task_that_releases_the_gil(run_try: Try) -> None:
    said = worth_it(run_try("digest"))
    assert re.search(r"^ *GIL +released or disabled", said, re.MULTILINE)
    assert advice(said)["3"] == "worth a run"


@contextlib.contextmanager
def all_cpus_busy() -> Iterator[None]:
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="this system has no schedstat")
def test_busy_cpus_do_not_change_whether_the_gil_is_reported_as_held(run_try: Try) -> None:
    with all_cpus_busy():
        assert re.search(r"^ *GIL +released or disabled", worth_it(run_try("digest")), re.MULTILINE)
        assert re.search(r"^ *GIL +held", worth_it(run_try("primes")), re.MULTILINE)


def test_processes_are_not_recommended_for_an_io_bound_task(run_try: Try) -> None:
    said = worth_it(run_try("sign_up"))
    assert re.search(r"^ *GIL +hardly needed", said, re.MULTILINE)
    judged = advice(said)
    assert set(judged) == {path.stem.split("_")[0] for path in SERVERS}
    assert (judged["3"], judged["4"], judged["5"], judged["6"]) == (
        "worth a run",
        "not worth it",
        "worth a run",
        "worth a run",
    )


@pytest.mark.parametrize(("usual_s", "once_s"), [(3.6, 2.0), (1.8, 3.6)], ids=["held", "released"])
def test_the_time_of_two_parallel_tasks_ignores_one_run_at_another_cpu_speed(
    usual_s: float, once_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one of the parallel runs, the CPU speed is different. A single task always takes 1.8 s."""
    took_s = iter([usual_s, usual_s, once_s, usual_s, usual_s])
    monkeypatch.setattr(task_profiler, "_once", lambda _: SimpleNamespace(started_s=0.0, finished_s=1.8, cpu_s=1.8))
    monkeypatch.setattr(task_profiler, "_two_at_once", lambda *_: (next(took_s), 1.8, 0.0))
    found = task_profiler._threads("any")
    assert (found["alone_s"], found["two_s"]) == (1.8, usual_s)


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


@pytest.mark.measures
def test_a_task_that_holds_the_gil_in_c_is_reported_to_delay_all_threads(run_try: Try) -> None:
    ended = run_try("holds_the_gil_in_c")
    shown = flat(ended.stdout)
    takes_ms, stalled_ms = (
        float(re.search(words, shown)[1]) for words in (r"takes ([\d.]+) ms", r"threads wait up to ([\d.]+) ms")
    )
    assert stalled_ms > 0.5 * takes_ms
    assert advice(ended.stdout)["3"] == "not worth it"


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("recurses_too_deep", "RecursionError"),
        ("exits_hard", "it terminated the process during the first run"),
        ("only_once", "it worked once and then failed: RuntimeError: once is enough"),
        ("counts_its_runs", "its result differs"),
    ],
)
def test_no_strategy_is_recommended_for_a_failing_task(run_try: Try, name: str, word: str) -> None:
    ended = run_try(name)
    assert ended.returncode == 1
    assert word in flat(ended.stdout)
    assert set(advice(ended.stdout).values()) == {"cannot work"}
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("recurses_and_is_not_picklable", "takes less time than the overhead of a request"),
        (
            "prints_forks_and_leaves_processes",
            r"warning it prints.* warning it forks.* warning it leaves 1 process.* warning it leaves .* threads b",
        ),
        ("awaits", "yields 3 times, [23] of them to wait; at most .* worth a run it yields while it waits"),
        ("awaits_nothing", "never: it neither yields nor awaits"),
        (
            "caches_by_hand_and_uses_memory",
            r"(?=.*60 MB more at its peak).*the first run took \d.* cached\? later runs may be cache hits",
        ),
        ("computes_in_own_threads", r"takes \d+ ms, (using|([2-9]\d|100) % of it)(?!.*hardly needed)"),
        ("waits_without_yielding", "it waits without yielding, which blocks the event loop"),
    ],
)
def test_try_reports_unusual_behaviour_of_a_task_such_as_printing_or_forking(
    run_try: Try, name: str, word: str
) -> None:
    ended = run_try(name)
    assert ended.returncode == 0, ended.stderr
    assert re.search(word, flat(ended.stdout))


def test_try_suggests_the_uncached_function_of_a_cached_task(run_try: Try) -> None:
    said = flat(run_try("caches_its_answer(2)").stdout)
    assert "it has a cache, so all figures here are for cache hits" in said
    hint = "awkward_tasks:caches_its_answer.__wrapped__(2)"
    assert f"bench.py try {shlex.quote(hint)}" in said
    assert re.search(
        "1_sync +worth a run +after its first run: it takes less time than the overhead of a request", said
    )
    assert "Measure these: python bench.py run 1 2 --task 'awkward_tasks:caches_its_answer(2)'" in said
    assert "cached?" not in run_try("caches_its_answer.__wrapped__(2)").stdout


def test_the_cost_of_sending_a_large_result_between_processes_is_reported(run_try: Try) -> None:
    said = run_try("large_answer").stdout
    assert re.search("20,000,000 bytes.*takes more than a fifth of the task's time", flat(said))
    assert re.search(r"^4_\S+ +worth a run +every core computes, but sending the task", said, re.MULTILINE)
    assert re.search(
        r"^8_\S+ +worth a run +every core computes, and nothing is sent between processes", said, re.MULTILINE
    )


def found(**steps: object) -> TaskProfile:
    """Return the profile of a task that holds the GIL for 100 ms on a machine with four CPUs."""
    usual = {
        "alone": FirstRun(wall_s=0.1, cpu_s=0.1, answer="x"),
        "again": RepeatedRuns(wall_s=0.1, cpu_s=0.1, runs=5, answers=1),
        "threads": ThreadRuns(alone_s=0.1, two_s=0.2),
        "process": WorkerRun(costs_s=0.001),
    }
    return TaskProfile(task="m:f", python="3.11.7", free_threaded=False, cpus=4, **{**usual, **steps})


def test_try_without_a_task_tries_all_built_in_tasks(run_cli, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = lambda task, *_: (msgspec.structs.replace(found(), task=task), None)  # noqa: E731
    monkeypatch.setattr("under_siege.try_task.task_profile.profile_task", profile)
    ended = run_cli("try")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert re.findall(r"^(\w+), under Python", ended.stdout, re.MULTILINE) == list(BUILTIN_TASKS)


def advice_text(of: TaskProfile) -> str:
    return rendered(view(of, all_strategies()))


def test_cpu_use_of_other_programs_is_reported() -> None:
    assert "other programs used 43 % of the CPUs" in flat(advice_text(found(machine=OtherPrograms(others_pct=43.2))))
    assert "other programs" not in advice_text(found(machine=OtherPrograms(others_pct=3.0)))
    assert "other programs" not in advice_text(found())


def test_cpu_use_of_other_programs_excludes_the_task_and_its_children(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu_times = namedtuple("cpu_times", "user system idle iowait guest")
    times = namedtuple("times", "user system children_user children_system")
    monkeypatch.setattr(task_profiler.psutil, "cpu_count", lambda: 2)
    monkeypatch.setattr(task_profiler.time, "sleep", lambda _s: None)
    now = {"s": 100.0, "all": cpu_times(10, 1, 50, 1, 5), "own": times(1, 0, 0, 0)}
    monkeypatch.setattr(task_profiler.time, "monotonic", lambda: now["s"])
    monkeypatch.setattr(task_profiler.psutil, "cpu_times", lambda: now["all"])
    monkeypatch.setattr(task_profiler.os, "times", lambda: now["own"])
    machine = task_profiler._Machine()
    now.update(s=110.0, all=cpu_times(21, 4, 54, 3, 7), own=times(5, 1, 2, 1))
    assert machine.others() == {"others_pct": pytest.approx(100 * (14 - 8) / 20)}


def test_the_gil_use_of_a_multithreaded_task_is_reported_as_unknown() -> None:
    shown = advice_text(found(again=RepeatedRuns(wall_s=0.1, cpu_s=0.38, runs=5, answers=1)))
    assert "using 3.8 CPUs with threads of its own" in shown
    assert "unknown: the task has threads of its own" in shown
    assert advice(shown) | {"3": "worth a run", "4": "not worth it", "8": "not worth it"} == advice(shown)
    some = advice(advice_text(found(again=RepeatedRuns(wall_s=0.1, cpu_s=0.2, runs=5, answers=1))))
    assert some | {"3": "worth a run", "4": "worth a run", "8": "worth a run"} == some


@pytest.mark.parametrize(
    ("first_s", "others_s", "expected"),
    [(1.0, 0.000002, True), (1.0, 0.05, True), (1.0, 0.5, False), (0.003, 0.000002, False), (0.0, 0.0, False)],
)
def test_a_task_with_a_much_longer_first_run_is_reported_as_possibly_cached(
    first_s: float, others_s: float, expected
) -> None:
    again = RepeatedRuns(wall_s=others_s, cpu_s=others_s, runs=5, answers=1)
    assert ("cached?" in advice_text(found(alone=FirstRun(wall_s=first_s, cpu_s=first_s), again=again))) == expected


def test_an_endless_task_is_stopped_at_the_time_limit(run_try: Try) -> None:
    began_s = time.monotonic()
    ended = run_try("never_ends", "--limit", "500ms")
    assert ended.returncode == 1
    assert "the first run did not end within 0.5 s, so the profiler was stopped" in flat(ended.stdout)
    assert time.monotonic() - began_s < 60


def test_an_invalid_time_limit_is_rejected(run_try: Try) -> None:
    ended = run_try("primes", "--limit", "soon")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
