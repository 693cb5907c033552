"""bench.py try: what it finds out about difficult tasks, which must neither hang nor leave processes behind."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import SUPPORT

from under_siege.host.interpreter import interpreter
from under_siege.try_task.task_profile import TaskProfile, profile_task
from under_siege.try_task.task_traits import TaskTraits

Found = Callable[[TaskProfile], bool]
UNUSUAL: dict[str, Found] = {
    "recurses_and_is_not_picklable": lambda task: task.process is not None and not task.process.error,
    "prints_forks_and_leaves_processes": lambda task: (
        task.effects.printed_bytes > 0
        and (task.effects.forks, task.effects.children) == (1, 1)
        and task.threads.threads_left > 0
    ),
    # The first one only yields, but on a busy machine it takes long enough to count as a wait.
    "awaits": lambda task: task.yields.yields == 3 and task.yields.waits in (2, 3),
    "awaits_nothing": lambda task: task.yields is not None and task.yields.yields == 0,
    "caches_by_hand_and_uses_memory": lambda task: (
        55e6 < task.alone.memory_bytes < 90e6 and TaskTraits(task).is_cached and not task.alone.has_cache
    ),
    "caches_its_answer(2)": lambda task: task.alone.has_cache,
    "large_answer": lambda task: task.alone.answer_bytes == 20_000_000 <= task.process.sent_bytes,
    "counts_its_runs": lambda task: task.again.answers > 1,
    "only_once": lambda task: task.again.error == "RuntimeError: once is enough",
    "recurses_too_deep": lambda task: task.alone.error.startswith("RecursionError"),
    "exits_hard": lambda task: task.alone is None and "the first run" in task.stopped,
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_try_finds_out_what_is_unusual_about_a_task(name: str, tmp_path: Path, monkeypatch) -> None:
    shutil.copy(SUPPORT / "awkward_tasks.py", tmp_path)
    monkeypatch.chdir(tmp_path)
    profile, stopped_by = profile_task(f"awkward_tasks:{name}", interpreter(), 60.0, lambda _: None)
    assert stopped_by is None
    assert UNUSUAL[name](profile), profile


def test_a_task_that_never_ends_is_stopped_at_the_time_limit(run_cli) -> None:
    ended = run_cli("try", "awkward_tasks:never_ends", "--limit", "500ms", env={"PYTHONPATH": str(SUPPORT)})
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "0.5 s" in ended.stdout
