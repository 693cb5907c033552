"""The exercises of the lesson, measured: the check reports a fault in each exercise and none in its solution."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, SUPPORT
from fake_load import SilentWatcher

from under_siege.lesson.claims import HOLDS, NOT_HERE, ClaimValue, ResultView, decide, exact
from under_siege.lesson.exercise_check import NOT_DECIDED, SOLVED, CheckReport
from under_siege.lesson.step import Claim, all_exercises
from under_siege.measure.plan import make_plan
from under_siege.measure.rounds import run_plan
from under_siege.measure.session import Reporting
from under_siege.show.formats.table import rendered
from under_siege.suite.server_files import find_strategy, read_strategy, strategies_suite

FOLDERS = [ROOT / "lesson" / "exercises", ROOT / "lesson" / "solutions"]
WAITING = sorted(name for name, one in all_exercises().items() if one.task == "sign_up")
LIGHTER = "sample_tasks:a_little_work"


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
        result, _, _ = run_plan(plan, Reporting(out, SilentWatcher(), ["bench.py"]))
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

    def figure(self, metric: str, case: str) -> ClaimValue:
        return self._exact(self._view.figure(metric, case))

    def base(self, metric: str, base: str, case: str) -> ClaimValue:
        return self._exact(self._view.base(metric, base, case))

    def _exact(self, figure: ClaimValue) -> ClaimValue:
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


def test_a_pool_created_for_each_request_is_detected(tmp_path: Path) -> None:
    name = "pool_for_each_request"
    assert_exercises_differ_from_solutions(
        measured_exercises(tmp_path / "r.json", name, time_s=1.2, task=LIGHTER, others=["4"])
    )
