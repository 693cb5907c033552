"""The exercises of the lesson, and the report of the check on simulated servers."""

import ast
from functools import partial
from pathlib import Path

import msgspec
import pytest
from command import invoke
from conftest import ROOT
from rows import set_waits
from simulated_record import CPUS, TIME_S, bare_record, record_of, result_of
from source_code import lines_of_code

from under_siege.judge.verdict_rules import Reason
from under_siege.lesson.claims import ResultView
from under_siege.lesson.exercise_check import (
    NOISE,
    NOT_DECIDED,
    NOT_SOLVED,
    OF_THE_MACHINE,
    SOLVED,
    CheckReport,
    undecided_cases,
)
from under_siege.lesson.step import Claim, Exercise, all_exercises
from under_siege.record.record import Machine
from under_siege.record.result import Result
from under_siege.show.formats.table import rendered
from under_siege.suite.server_files import read_strategy

FOLDERS = [ROOT / "lesson" / "exercises", ROOT / "lesson" / "solutions"]
EXERCISES, SOLUTIONS = FOLDERS
NAMES = sorted(path.stem for path in EXERCISES.glob("*.py"))
MOST_LINES = 25
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


def measured(ping_s: float | None = None, **own) -> Result:
    """Return the result of a simulated server on a machine without noise."""
    rounds = (1, 2)
    records = [bare_record(one) for one in rounds] + [record_of("own", one, **own) for one in rounds]
    for record in records if ping_s else ():
        set_waits(record.requests, ping_s)
    return result_of(records)


def checked(ping_s: float | None = None, **own) -> CheckReport:
    view = ResultView(measured(ping_s, **own))
    return CheckReport("own", Exercise(claims=(PING,), hint="Look."), view, is_exercise=True)


def test_a_server_without_a_fault_solves_the_exercise() -> None:
    found = checked()
    assert found.exit_code == SOLVED
    report = rendered(found.view())
    assert report.startswith("Solved: no fault was found.\n")
    assert "✓  Pings took 2.0 ms." in report
    assert "Hint" not in report


def test_a_false_claim_leaves_the_exercise_unsolved_and_prints_a_hint() -> None:
    found = checked(ping_s=0.2)
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
    busy = Machine(total_s=CPUS * TIME_S, busy_s=CPUS * TIME_S, steal_s=0.0)
    assert checked(machine=busy).exit_code == SOLVED
    assert checked(ping_s=0.2, machine=busy).exit_code == NOT_SOLVED


@pytest.mark.parametrize("code", OF_THE_MACHINE)
def test_any_flag_that_does_not_blame_the_server_except_noise_leaves_the_exercise_undecided(code: str) -> None:
    """A server whose work could not be verified never solves an exercise."""
    found = checked()
    found.doubts = [Reason(code, "Something.")]
    assert found.exit_code == (SOLVED if code in NOISE else NOT_DECIDED)


def test_an_exercise_is_measured_until_every_claim_is_decided() -> None:
    result = measured()
    cases = {record.case for record in result.records}
    wanted = partial(undecided_cases, "own", Exercise(claims=(PING,)))
    assert wanted(result).cases == ()
    undecided = partial(
        undecided_cases,
        "own",
        Exercise(claims=(msgspec.structs.replace(PING, requires=("ping p50 <= 1 of base",), base="nobody"),)),
    )
    assert set(undecided(result).cases) == cases
    result.records = [record for record in result.records if record.round == 1]
    assert set(wanted(result).cases) == cases


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
