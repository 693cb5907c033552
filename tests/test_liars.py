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


def summaries(bench, tmp_path, *servers: str, time_s: int = 2) -> dict[str, Summary]:
    ran = bench("run", *servers, "--rounds", "1", "--time", f"{time_s}s", "--out", "r.json")
    assert ran.returncode in (0, 1, 3), ran.stderr
    return {case.server: case for case in summarize(load(tmp_path / "r.json")).cases}


def test_every_liar_is_expected() -> None:
    assert {path.stem for path in LIARS.glob("*.py")} == set(EXPECTED)


@pytest.mark.timeout(300)
def test_every_liar_is_found_out(bench, tmp_path) -> None:
    cases = summaries(bench, tmp_path, *map(str, sorted(LIARS.glob("*.py"))))
    found = {name: (case.verdict, [reason.code for reason in case.reasons]) for name, case in cases.items()}
    for name, (verdict, code) in EXPECTED.items():
        assert found[name][0] == verdict, found
        assert code in found[name][1], found


@pytest.mark.timeout(300)
def test_no_honest_strategy_is_accused(bench, tmp_path) -> None:
    cases = summaries(bench, tmp_path, time_s=4)
    assert set(cases) == {path.stem for path in SERVERS if not unmet(read_strategy(path).requires)}
    for name, case in cases.items():
        assert not accusations(case), name


@pytest.mark.timeout(300)
def test_work_beside_the_run_is_named(bench, tmp_path) -> None:
    """Two processes that compute all the time, as a background load on both cores."""
    import subprocess
    import sys

    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        cases = summaries(bench, tmp_path, "2", "4")
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    for case in cases.values():
        assert case.verdict == "unclear"
        assert case.reasons[0].code == "busy_machine"
