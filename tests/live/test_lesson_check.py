"""bench.py lesson check: real exercises and solutions."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bench_runs import without_a_ceiling
from command import invoke
from conftest import ROOT, TESTS, serving

from common.task import perform
from under_siege.lesson import exercise_check
from under_siege.lesson.exercise_check import NOT_SOLVED
from under_siege.lesson.step import Exercise, all_exercises

EXERCISES, SOLUTIONS = ROOT / "lesson" / "exercises", ROOT / "lesson" / "solutions"


@pytest.mark.parametrize("solution", sorted(SOLUTIONS.glob("*.py")), ids=lambda path: path.stem)
def test_a_solution_keeps_the_server_contract(solution: Path) -> None:
    with serving(solution) as served:
        answer = served.request("/")
        assert (answer.status, answer.body) == (200, perform("primes").answer)
        assert served.request("/ping").body == "pong"


@pytest.fixture
def shorter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Measure one short round with a task that waits, without a ceiling."""
    waiting = Exercise(task="sign_up", users=2)
    monkeypatch.setattr(exercise_check, "TIME_S", 0.3)
    monkeypatch.setattr(exercise_check, "MOST_ROUNDS", 1)
    monkeypatch.setattr(exercise_check, "all_exercises", lambda: dict.fromkeys(all_exercises(), waiting))
    monkeypatch.setattr(exercise_check, "Exercise", lambda: waiting)
    with without_a_ceiling():
        yield


def test_lesson_check_reports_the_fault_of_an_exercise_and_saves_raw_values(shorter: None, tmp_path: Path) -> None:
    ended = invoke("lesson", "check", str(EXERCISES / "forgotten_await.py"), "--keep", "kept", folder=tmp_path)
    assert ended.returncode == NOT_SOLVED, ended.stderr
    assert exercise_check.FAULTS["wrong_answer"]["short"] in ended.stdout
    assert (tmp_path / "kept" / "check-forgotten_await.json").is_file()
    assert max(map(len, ended.stdout.splitlines())) <= 80


def test_a_server_that_does_not_start_causes_a_one_line_error(shorter: None, tmp_path: Path) -> None:
    ended = invoke("lesson", "check", str(TESTS / "servers" / "crashes_at_startup.py"), folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "crashes_at_startup.py does not start: " in ended.stderr.splitlines()[-1]
