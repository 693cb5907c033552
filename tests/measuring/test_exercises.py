"""The exercises of the lesson: the check reports a fault in each exercise and none in its solution."""

import ast
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest
from bench_runs import without_a_ceiling
from command import invoke
from conftest import ROOT, SUPPORT, TESTS
from fake_load import SilentWatcher
from simulated_record import CPUS, TIME_S, bare_record, record_of, result_of
from source_code import lines_of_code

from common.errors import BadInputError
from under_siege.judge.verdict_rules import Reason
from under_siege.lesson import exercise_check
from under_siege.lesson.claims import HOLDS, NOT_HERE, Figure, ResultView, decide, exact
from under_siege.lesson.exercise_check import (
    NOT_DECIDED,
    NOT_SOLVED,
    OF_THE_MACHINE,
    SOLVED,
    CheckReport,
    undecided_cases,
)
from under_siege.lesson.step import Claim, Exercise, all_exercises
from under_siege.measure.plan import make_plan
from under_siege.measure.session import run_plan
from under_siege.record.record import Machine
from under_siege.show.formats.table import rendered
from under_siege.suite.strategies import find_strategy, read_strategy, strategies_suite

FOLDERS = [ROOT / "lesson" / "exercises", ROOT / "lesson" / "solutions"]
EXERCISES, SOLUTIONS = FOLDERS
NAMES = sorted(path.stem for path in EXERCISES.glob("*.py"))
WAITING = sorted(name for name, one in all_exercises().items() if one.task == "sign_up")
MOST_LINES = 25
LIGHTER = "sample_tasks:a_little_work"
PING = Claim(
    of="it",
    requires=("ping p50 <= 50ms",),
    claim="pings are short",
    says="Pings took {of}.",
    otherwise="Pings took {of}, and 50 ms would do.",
)


def test_every_exercise_of_the_lesson_has_a_solution_and_a_hint() -> None:
    assert NAMES == sorted(path.stem for path in SOLUTIONS.glob("*.py")) == sorted(all_exercises())
    assert all(one.hint for one in all_exercises().values())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
@pytest.mark.parametrize("name", NAMES)
def test_exercises_and_solutions_are_short_servers(folder: Path, name: str) -> None:
    path = folder / f"{name}.py"
    assert read_strategy(path).command
    assert lines_of_code(path) <= MOST_LINES


@pytest.mark.parametrize("name", NAMES)
def test_exercises_and_hints_do_not_contain_the_solution(name: str) -> None:
    """Check that neither the docstring nor the hint contains a line of code that only the solution has."""
    told = ast.get_docstring(ast.parse((EXERCISES / f"{name}.py").read_text())) + all_exercises()[name].hint
    before, after = (set((folder / f"{name}.py").read_text().splitlines()) for folder in FOLDERS)
    changed = [line.strip() for line in after - before if not line.startswith(('"', "import", "from"))]
    assert changed
    assert not [line for line in changed if line in told]


def measured_exercises(
    out: Path, *names: str, time_s: float, task: str = "", others: Sequence[str] = (), ceiling: bool = False
) -> dict[str, CheckReport]:
    """Measure exercises and their solutions in one short round, with `task` or the task of the first exercise."""
    exercises = [all_exercises()[name] for name in names]
    files = [read_strategy(folder / f"{name}.py") for name in names for folder in FOLDERS]
    suite = replace(strategies_suite(["1"]), targets=(*files, *map(find_strategy, others)))
    workers = {one.workers for one in exercises if one.workers}
    axes = {"task": [task or exercises[0].task], "users": [4], "workers": sorted(workers), "python": [sys.executable]}
    plan = make_plan(suite if ceiling else replace(suite, ceiling=None), axes, time_s=time_s, rounds=1, seed=1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(SUPPORT))
        result, _, _ = run_plan(plan, out, SilentWatcher(), ["bench.py"])
    seen = ResultView(result)
    called = {f"{folder.name}/{name}": one for name, one in zip(names, exercises, strict=True) for folder in FOLDERS}
    return {name: CheckReport(name, one, seen, is_exercise=True) for name, one in called.items()}


def assert_exercises_differ_from_solutions(everything: dict[str, CheckReport]) -> None:
    """Check that each exercise has a fault and that no solution has one.

    A false claim counts as a fault, and so do too few responses to an exercise. Confidence intervals are ignored.
    """
    for name, found in everything.items():
        missed = [claim for claim in found.claims if keeps(found, claim.claim) is False]
        report = rendered(found.view())
        if name.startswith("exercises/"):
            too_slow = {"no_transactions", "too_short"} & {one.code for one in found.doubts}  # the siege is short
            assert found.faults or missed or too_slow, report
        else:
            assert not found.faults, report
            assert not missed, report
            assert found.exit_code in (SOLVED, NOT_DECIDED), report


class _Points:
    """The figures of a result without their intervals."""

    def __init__(self, view: ResultView) -> None:
        self._view, self.cpus = view, view.cpus

    def figure(self, metric: str, case: str) -> Figure:
        return self._exact(self._view.figure(metric, case))

    def base(self, metric: str, base: str, case: str) -> Figure:
        return self._exact(self._view.base(metric, base, case))

    def _exact(self, figure: Figure) -> Figure:
        return figure if figure.value is None else exact(figure.value, figure.text)


def keeps(found: CheckReport, claim: Claim) -> bool | None:
    """Return whether the figures satisfy the claim, ignoring their intervals; return None if a figure is missing."""
    outcome = decide(claim, _Points(found._view), trusted=True).outcome
    return {HOLDS: True, NOT_HERE: False}.get(outcome)


def test_blocking_the_event_loop_is_detected(tmp_path: Path) -> None:
    assert_exercises_differ_from_solutions(measured_exercises(tmp_path / "r.json", *WAITING, time_s=1.0))


def test_cached_responses_and_a_forgotten_await_are_detected(tmp_path: Path) -> None:
    names = ("cached", "forgotten_await")
    assert_exercises_differ_from_solutions(
        measured_exercises(tmp_path / "r.json", *names, time_s=0.7, task=LIGHTER, ceiling=True)
    )


@pytest.mark.slow
def test_a_pool_created_for_each_request_is_detected(tmp_path: Path) -> None:
    name = "pool_for_each_request"
    assert_exercises_differ_from_solutions(
        measured_exercises(tmp_path / "r.json", name, time_s=1.2, task=LIGHTER, others=["4"])
    )


def checked(**own) -> CheckReport:
    """Check a simulated server on a machine without noise."""
    rounds = (1, 2)
    records = [bare_record(one) for one in rounds] + [record_of("own", one, **own) for one in rounds]
    return CheckReport("own", Exercise(claims=(PING,), hint="Look."), ResultView(result_of(records)), is_exercise=True)


def slow_pings(found: CheckReport) -> CheckReport:
    for record in found._view.result.records:
        record.pings.waited_s[:] = [0.2] * len(record.pings.waited_s)
    return CheckReport("own", found._exercise, ResultView(found._view.result), is_exercise=True)


def test_a_server_without_a_fault_solves_the_exercise() -> None:
    found = checked()
    assert found.exit_code == SOLVED
    report = rendered(found.view())
    assert report.startswith("Solved: no fault was found.\n")
    assert "✓  Pings took 2.0 ms." in report
    assert "Hint" not in report


def test_a_false_claim_leaves_the_exercise_unsolved_and_prints_a_hint() -> None:
    found = slow_pings(checked())
    assert found.exit_code == NOT_SOLVED
    lines = [line.strip() for line in rendered(found.view()).splitlines() if line]
    assert lines[:3] == ["Not solved yet.", "✗  Pings took 200 ms, and 50 ms would do.", "Hint: Look."]


def test_a_suspect_server_does_not_solve_the_exercise_and_the_reason_is_explained() -> None:
    found = checked(speed=5)
    assert found.exit_code == NOT_SOLVED
    assert "above_ceiling" in [one.code for one in found.faults]
    report = rendered(found.view())
    assert report.startswith("Not solved yet: more responses than this machine can compute.\n\n  ✗  ")
    assert "What that means: The ceiling is the throughput of the same users" in report


def test_a_correct_server_solves_the_exercise_even_on_a_busy_machine() -> None:
    found = checked(machine=Machine(total_s=CPUS * TIME_S, busy_s=CPUS * TIME_S, steal_s=0.0))
    assert found.exit_code == SOLVED
    assert slow_pings(found).exit_code == NOT_SOLVED


@pytest.mark.parametrize("code", OF_THE_MACHINE)
def test_any_flag_that_does_not_blame_the_server_except_wide_intervals_leaves_the_exercise_undecided(code: str) -> None:
    """A server whose work could not be verified never solves an exercise."""
    found = checked()
    found.doubts = [Reason(code, "Something.")]
    assert found.exit_code == (SOLVED if code == "wide_interval" else NOT_DECIDED)


def test_an_exercise_is_measured_until_every_claim_is_decided() -> None:
    result = checked()._view.result
    cases = {record.case for record in result.records}
    wanted = partial(undecided_cases, "own", Exercise(claims=(PING,)))
    assert wanted(result) == ()
    undecided = partial(
        undecided_cases,
        "own",
        Exercise(claims=(msgspec.structs.replace(PING, requires=("ping p50 <= 1 of base",), base="nobody"),)),
    )
    assert set(undecided(result)) == cases
    result.records = [record for record in result.records if record.round == 1]
    assert set(wanted(result)) == cases


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("gone.py", None, "can't be read: No such file or directory"),
        ("half.py", "def (", "is not Python"),
        ("letter.py", "print('hello')", "violates the server contract"),
    ],
)
def test_an_invalid_server_is_rejected_with_a_one_line_error(
    file: str, text: str | None, why: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / file).write_text(text)
    ended = invoke("lesson", "check", file, folder=tmp_path)
    assert (ended.returncode, ended.stdout, len(ended.stderr.splitlines())) == (2, "", 1)
    assert file in ended.stderr
    assert why in ended.stderr


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the checks use short sieges and a light task."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    monkeypatch.setattr(exercise_check, "TIME_S", 0.3)
    lighter = {name: msgspec.structs.replace(one, task=LIGHTER) for name, one in all_exercises().items()}
    monkeypatch.setattr(exercise_check, "Exercise", partial(Exercise, task=LIGHTER))
    monkeypatch.setattr(exercise_check, "all_exercises", lambda: lighter)


@pytest.mark.usefixtures("light")
def test_a_server_that_does_not_start_is_reported(tmp_path: Path) -> None:
    with (
        without_a_ceiling(),
        pytest.raises(BadInputError, match=r"crashes_at_startup\.py does not start: .*no database at db:5432"),
    ):
        exercise_check.check(TESTS / "servers" / "crashes_at_startup.py", tmp_path)


@pytest.mark.usefixtures("light")
def test_lesson_check_prints_a_report_and_saves_raw_values(tmp_path: Path) -> None:
    ended = invoke("lesson", "check", str(EXERCISES / "forgotten_await.py"), "--keep", "kept", folder=tmp_path)
    assert ended.returncode == NOT_SOLVED, ended.stderr
    assert "Not solved yet: the response is not the result of the task." in ended.stdout
    assert "'done'" in ended.stdout
    assert all_exercises()["forgotten_await"].hint.split()[0] in ended.stdout
    assert (tmp_path / "kept" / "check-forgotten_await.json").is_file()
    assert max(map(len, ended.stdout.splitlines())) <= 80
