"""bench.py try: tasks that make trouble get a clear word and not a hang, and leave nothing behind."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable

import pytest
from conftest import TESTS, bench_command

Try = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def tried(asked, tmp_path, monkeypatch) -> Try:
    shutil.copy(TESTS / "awkward_tasks.py", tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(name: str, *options: str) -> subprocess.CompletedProcess[str]:
        task = name if name in ("primes", "digest", "sign_up") else f"awkward_tasks:{name}"
        return asked("try", task, *options)

    return call


def advice(shown: str) -> dict[str, str]:
    """Number of the server: what is said of it."""
    found = re.findall(r"^(\d+)_\S+\s+(worth a run|not worth it|cannot work)", shown, re.MULTILINE)
    return dict(found)


def flat(shown: str) -> str:
    return " ".join(shown.split())


@pytest.fixture(scope="module")
def all_three(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said of each task that is built in: all of them are tried where none is named.

    By the command, which the other tests call without starting Python anew.
    """
    folder = tmp_path_factory.mktemp("all_three")
    wide = {**os.environ, "COLUMNS": "200"}
    ended = subprocess.run(bench_command("try"), cwd=folder, capture_output=True, text=True, env=wide)
    assert (ended.returncode, ended.stderr) == (0, "")
    told = re.split(r"^task +(\w+), under", ended.stdout, flags=re.MULTILINE)
    assert told[1::2] == ["primes", "digest", "sign_up"]
    return dict(zip(told[1::2], told[2::2], strict=True))


@pytest.mark.measures
def test_a_task_that_holds_the_gil_wants_processes(all_three: dict[str, str]) -> None:
    said = all_three["primes"]
    assert "held: two at once in threads take" in flat(said)
    assert re.search(r"^answer +'4017' .*same in \d more runs", said, re.MULTILINE)
    judged = advice(said)
    assert len(judged) == 10
    assert (judged["3"], judged["4"], judged["8"], judged["5"]) == (
        "not worth it",
        "worth a run",
        "worth a run",
        "worth a run",
    )
    assert re.search(r"Measure those: python bench.py run 4 5 6 .*--task primes", flat(said))


@pytest.mark.measures
def test_a_task_that_lets_go_of_it_can_have_threads(all_three: dict[str, str]) -> None:
    assert re.search(r"^GIL +let go of, or not there", all_three["digest"], re.MULTILINE)
    assert advice(all_three["digest"])["3"] == "worth a run"


@pytest.mark.measures
def test_a_task_that_waits_needs_no_processes(all_three: dict[str, str]) -> None:
    assert re.search(r"^GIL +hardly needs it", all_three["sign_up"], re.MULTILINE)
    judged = advice(all_three["sign_up"])
    assert set(judged) == {str(number) for number in range(1, 11)}
    assert (judged["3"], judged["4"], judged["5"], judged["6"]) == (
        "worth a run",
        "not worth it",
        "worth a run",
        "worth a run",
    )


@pytest.mark.measures
def test_one_that_holds_the_gil_in_c_makes_all_threads_wait(tried: Try) -> None:
    ended = tried("holds_the_gil_in_c")
    shown = flat(ended.stdout)
    takes_ms, stalled_ms = (
        float(re.search(words, shown)[1]) for words in (r"takes ([\d.]+) ms", r"threads wait ([\d.]+) ms")
    )
    assert stalled_ms > 0.5 * takes_ms
    assert advice(ended.stdout)["3"] == "not worth it"


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("recurses_too_deep", "RecursionError"),
        ("is_async", "is an async function; expected a plain function"),
        ("no_such_function", "cannot import task"),
        ("exits_hard", "it ended the process while performing it once"),
        ("only_once", "it worked once and then failed: RuntimeError: once is enough"),
        ("counts_its_runs", "its answer differs"),
        ("answers_with_what_can_not_be_pickled", "its answer differs"),
    ],
)
def test_one_that_no_strategy_can_run_gets_a_clear_word(tried: Try, name: str, word: str) -> None:
    ended = tried(name)
    assert ended.returncode == 1
    assert word in flat(ended.stdout)
    assert set(advice(ended.stdout).values()) == {"cannot work"}
    assert ended.stderr == ""


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("recurses", "takes less than a request itself costs"),
        ("not_picklable", "takes less than a request itself costs"),
        ("large_answer", "(?=.*20,000,000 bytes).*costs more than a fifth of what it takes"),
        ("prints", "beware it prints"),
        ("forks", "beware it forks"),
        ("leaves_a_process", "beware it leaves 1 processes behind"),
        ("leaves_a_thread", "threads behind"),
        ("yields_nothing", "3 times; never longer than"),
        ("waits_without_yielding", "it waits without yielding, and so stops the loop"),
        ("takes_memory", "60 MB more at its peak"),
    ],
)
def test_one_that_is_peculiar_is_told_of(tried: Try, name: str, word: str) -> None:
    ended = tried(name)
    assert ended.returncode == 0, ended.stderr
    assert re.search(word, flat(ended.stdout))


def test_one_that_never_ends_is_stopped_at_the_limit(tried: Try) -> None:
    began_s = time.monotonic()
    ended = tried("never_ends", "--limit", "500ms")
    assert ended.returncode == 1
    assert "performing it once did not end within 0.5 s: it was stopped" in flat(ended.stdout)
    assert time.monotonic() - began_s < 60  # it would take for ever


def test_a_wrong_limit_is_wrong_use(tried: Try) -> None:
    ended = tried("primes", "--limit", "soon")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
