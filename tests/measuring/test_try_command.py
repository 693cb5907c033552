"""bench.py try: difficult tasks cause clear messages, do not hang, and leave no processes behind."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import SERVERS, SUPPORT

from common.task import BUILTIN_TASKS

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


def test_an_endless_task_is_stopped_at_the_time_limit(run_try: Try) -> None:
    began_s = time.monotonic()
    ended = run_try("never_ends", "--limit", "500ms")
    assert ended.returncode == 1
    assert "the first run did not end within 0.5 s, so the profiler was stopped" in flat(ended.stdout)
    assert time.monotonic() - began_s < 60


def test_an_invalid_time_limit_is_rejected(run_try: Try) -> None:
    ended = run_try("primes", "--limit", "soon")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
