"""The controls: servers that lie in every way we can think of, under real siege, and honest ones by the same rules."""

import pytest
from conftest import SERVERS, TESTS, accusations

from common.contract import unmet
from common.harness.ready.strategies import read_strategy
from common.model.record import load
from common.report.judging.comparison import summarize
from common.report.judging.summary import Summary

LIARS = TESTS / "servers" / "liars"
# What each must get: the verdict, and a reason that says what the lie is.
EXPECTED = {
    "errors_when_busy": ("suspect", "availability"),
    "not_awaited": ("failed", "wrong_answer"),
    "not_awaited_right_answer": ("suspect", "above_ceiling"),
    "only_the_first_time": ("suspect", "above_ceiling"),
    "refuses_half": ("suspect", "availability"),
    "sleeps_instead": ("suspect", "too_cheap"),
    "works_after_the_answer": ("suspect", "too_fast"),
    "wrong_later": ("failed", "wrong_answer"),
}


def test_every_liar_is_expected() -> None:
    assert {path.stem for path in LIARS.glob("*.py")} == set(EXPECTED)


@pytest.mark.measures
def test_every_liar_is_found_out_and_nobody_else_is_accused(bench, tmp_path) -> None:
    """All of them in one run, with honest ones of both kinds. The rules one by one: test_verdict.py."""
    cases = summaries(bench, tmp_path, "1s", "2", "4", *map(str, sorted(LIARS.glob("*.py"))))
    found = {name: (case.verdict, [reason.code for reason in case.reasons]) for name, case in cases.items()}
    for name, (verdict, code) in EXPECTED.items():
        assert found[name][0] == verdict, found
        assert code in found[name][1], found
    for name in ("2_async", "4_async_processexecutor"):
        assert not accusations(cases[name]), name


@pytest.mark.slow
@pytest.mark.measures
def test_no_honest_strategy_is_accused(bench, tmp_path) -> None:
    cases = summaries(bench, tmp_path, "4s")
    assert set(cases) == {path.stem for path in SERVERS if not unmet(read_strategy(path).requires)}
    for name, case in cases.items():
        assert not accusations(case), name


def summaries(bench, tmp_path, time: str, *servers: str) -> dict[str, Summary]:
    ran = bench("run", *servers, "--rounds", "1", "--time", time, "--users", "6", "--out", "r.json")
    assert ran.returncode in (0, 1, 3), ran.stderr
    return {case.server: case for case in summarize(load(tmp_path / "r.json")).cases}
