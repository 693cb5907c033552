"""The controls: servers that lie in every way we can think of, under real siege, and honest ones by the same rules.

That honest ones of both kinds are not accused: test_run.py; nor beside liars: test_noise.py. The rules one by one:
test_verdict.py.
"""

import pytest
from besieging import besiege, without_a_ceiling
from conftest import SERVERS, SUPPORT, TESTS, accusations

from common.server_contract import unmet
from under_siege.analysis.report_data import summarize
from under_siege.analysis.summary import Summary
from under_siege.model.record import load
from under_siege.targets.strategies import read_strategy

LIARS = TESTS / "servers" / "liars"
LITTLE = "sample_tasks:a_little_work"  # no more than a liar can be caught by
# What each must get: the verdict, and at least one of these reasons. Which one it is depends on the noise.
WRONG = {
    "errors_when_busy": ("suspect", "availability"),
    "not_awaited": ("failed", "wrong_answer"),
    "refuses_half": ("suspect", "availability"),
    "wrong_later": ("failed", "wrong_answer"),
}
TOO_CHEAP = {"sleeps_instead": ("suspect", "too_cheap")}
TOO_MANY = {
    "not_awaited_right_answer": ("suspect", "above_ceiling", "too_fast", "too_cheap"),
    "only_the_first_time": ("suspect", "above_ceiling", "too_fast", "too_cheap"),
}
TOO_SOON = {"works_after_the_answer": ("suspect", "too_fast")}


def test_every_liar_is_expected() -> None:
    assert {path.stem for path in LIARS.glob("*.py")} == {*WRONG, *TOO_CHEAP, *TOO_MANY, *TOO_SOON}


@pytest.mark.figures
def test_every_liar_whose_answers_are_not_the_right_ones_is_found_out(tmp_path) -> None:
    """All of them in one run; a task that waits will do."""
    besieged = besiege(tmp_path, [path_of(name) for name in WRONG])
    found_out(WRONG, {name: one.summary for name, one in besieged.items()})


@pytest.mark.figures
def test_a_liar_who_does_not_compute_is_found_out(asked, tmp_path) -> None:
    with without_a_ceiling():
        found_out(TOO_CHEAP, summaries(asked, tmp_path, "1s", *map(path_of, TOO_CHEAP), "--task", LITTLE))


@pytest.mark.measures
def test_every_liar_who_does_more_than_can_be_done_is_found_out(asked, tmp_path) -> None:
    found_out(TOO_MANY, summaries(asked, tmp_path, "1s", *map(path_of, TOO_MANY), "--task", LITTLE))


@pytest.mark.measures
def test_a_liar_who_works_after_the_answer_is_found_out(asked, tmp_path) -> None:
    """It still does so for the warm-up when the siege begins: 1 s may pass like that."""
    with without_a_ceiling():
        found_out(TOO_SOON, summaries(asked, tmp_path, "2s", *map(path_of, TOO_SOON), "--task", LITTLE))


def path_of(name: str) -> str:
    return str(LIARS / f"{name}.py")


def found_out(expected: dict[str, tuple[str, ...]], cases: dict[str, Summary]) -> None:
    found = {name: (case.verdict, [reason.code for reason in case.reasons]) for name, case in cases.items()}
    for name, (verdict, *codes) in expected.items():
        assert found[name][0] == verdict, found
        assert set(codes) & set(found[name][1]), found


@pytest.mark.slow
@pytest.mark.measures
def test_no_honest_strategy_is_accused(asked, tmp_path) -> None:
    cases = summaries(asked, tmp_path, "4s")
    assert set(cases) == {path.stem for path in SERVERS if not unmet(read_strategy(path).requires)}
    for name, case in cases.items():
        assert not accusations(case), name


def summaries(asked, tmp_path, time: str, *words: str) -> dict[str, Summary]:
    options = ("--rounds", "1", "--time", time, "--users", "6", "--out", "r.json")
    ran = asked("run", *words, *options, env={"PYTHONPATH": str(SUPPORT)})
    assert ran.returncode in (0, 1, 3), ran.stderr
    return {case.server: case for case in summarize(load(tmp_path / "r.json")).cases}
