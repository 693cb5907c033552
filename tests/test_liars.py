"""The controls: servers that lie in every way we can think of, under real siege, and honest ones by the same rules.

That honest ones of both kinds are not accused: test_run.py; nor beside liars: test_weather.py. The rules one by one:
test_verdict.py.
"""

import pytest
from besieging import besiege
from conftest import SERVERS, TESTS, accusations

from common.contract import unmet
from common.harness.ready.strategies import read_strategy
from common.model.record import load
from common.report.judging.comparison import summarize
from common.report.judging.summary import Summary

LIARS = TESTS / "servers" / "liars"
# What each must get: the verdict, and a reason that says what the lie is.
WRONG = {
    "errors_when_busy": ("suspect", "availability"),
    "not_awaited": ("failed", "wrong_answer"),
    "refuses_half": ("suspect", "availability"),
    "wrong_later": ("failed", "wrong_answer"),
}
TOO_GOOD = {
    "not_awaited_right_answer": ("suspect", "above_ceiling"),
    "only_the_first_time": ("suspect", "above_ceiling"),
    "sleeps_instead": ("suspect", "too_cheap"),
    "works_after_the_answer": ("suspect", "too_fast"),
}


def test_every_liar_is_expected() -> None:
    assert {path.stem for path in LIARS.glob("*.py")} == {*WRONG, *TOO_GOOD}


def test_every_liar_whose_answers_are_not_the_right_ones_is_found_out(tmp_path) -> None:
    """All of them in one run; a task that waits will do."""
    besieged = besiege(tmp_path, [path_of(name) for name in WRONG])
    found_out(WRONG, {name: one.summary for name, one in besieged.items()})


@pytest.mark.measures
def test_every_liar_who_is_too_good_to_be_true_is_found_out(asked, tmp_path) -> None:
    """All of them in one run, at a task that computes no more than a liar can be caught by.

    Who works after the answer still does so for the warm-up when the siege begins: 1 s may pass like that.
    """
    found_out(
        TOO_GOOD, summaries(asked, tmp_path, "2s", *map(path_of, TOO_GOOD), "--task", "sample_tasks:a_little_work")
    )


def path_of(name: str) -> str:
    return str(LIARS / f"{name}.py")


def found_out(expected: dict[str, tuple[str, str]], cases: dict[str, Summary]) -> None:
    found = {name: (case.verdict, [reason.code for reason in case.reasons]) for name, case in cases.items()}
    for name, (verdict, code) in expected.items():
        assert found[name][0] == verdict, found
        assert code in found[name][1], found


@pytest.mark.slow
@pytest.mark.measures
def test_no_honest_strategy_is_accused(asked, tmp_path) -> None:
    cases = summaries(asked, tmp_path, "4s")
    assert set(cases) == {path.stem for path in SERVERS if not unmet(read_strategy(path).requires)}
    for name, case in cases.items():
        assert not accusations(case), name


def summaries(asked, tmp_path, time: str, *words: str) -> dict[str, Summary]:
    options = ("--rounds", "1", "--time", time, "--users", "6", "--out", "r.json")
    ran = asked("run", *words, *options, env={"PYTHONPATH": str(TESTS)})
    assert ran.returncode in (0, 1, 3), ran.stderr
    return {case.server: case for case in summarize(load(tmp_path / "r.json")).cases}
