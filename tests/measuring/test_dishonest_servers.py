"""Controls: the bench detects real servers that send wrong, missing or precomputed responses, and accepts honest ones.

test_run.py and test_noise_study.py have more honest servers; test_verdict_rules.py tests the rules one by one.
"""

import pytest
from bench_runs import run_servers, without_a_ceiling
from conftest import SERVERS, SUPPORT, TESTS, server_flags

from under_siege.host.programs import unmet
from under_siege.judge.ranking import summarize
from under_siege.judge.summary import Summary
from under_siege.record.result import load
from under_siege.suite.strategies import read_strategy

DISHONEST = TESTS / "servers" / "dishonest"
SHORT_TASK = "sample_tasks:a_little_work"  # it uses just enough CPU time for the detection
# The verdict on each server, and its possible reasons. At least one must be given; noise decides which.
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


def test_every_dishonest_server_has_an_expected_verdict() -> None:
    assert {path.stem for path in DISHONEST.glob("*.py")} == {*WRONG, *TOO_CHEAP, *TOO_MANY, *TOO_SOON}


def test_servers_that_fail_requests_or_answer_wrongly_are_detected(tmp_path) -> None:
    """Measure all these servers in one run with an I/O-bound task."""
    measured_cases = run_servers(tmp_path, [path_of(name) for name in WRONG])
    assert_detected(WRONG, {name: one.summary for name, one in measured_cases.items()})


def test_servers_that_sleep_instead_of_computing_are_detected(run_cli, tmp_path) -> None:
    with without_a_ceiling():
        assert_detected(TOO_CHEAP, summaries(run_cli, tmp_path, "1s", *map(path_of, TOO_CHEAP), "--task", SHORT_TASK))


def test_servers_with_rates_above_the_ceiling_are_detected(run_cli, tmp_path) -> None:
    assert_detected(TOO_MANY, summaries(run_cli, tmp_path, "1s", *map(path_of, TOO_MANY), "--task", SHORT_TASK))


def test_servers_that_respond_before_the_work_is_done_are_detected(run_cli, tmp_path) -> None:
    """Measure for 2 s, because the server may still be busy with the warm-up during the first second."""
    with without_a_ceiling():
        assert_detected(TOO_SOON, summaries(run_cli, tmp_path, "2s", *map(path_of, TOO_SOON), "--task", SHORT_TASK))


def path_of(name: str) -> str:
    return str(DISHONEST / f"{name}.py")


def assert_detected(expected: dict[str, tuple[str, ...]], cases: dict[str, Summary]) -> None:
    found = {name: (case.verdict, [reason.code for reason in case.reasons]) for name, case in cases.items()}
    for name, (verdict, *codes) in expected.items():
        assert found[name][0] == verdict, found
        assert set(codes) & set(found[name][1]), found


@pytest.mark.slow
def test_built_in_strategies_get_no_flags_that_blame_the_server(run_cli, tmp_path) -> None:
    cases = summaries(run_cli, tmp_path, "4s")
    assert set(cases) == {path.stem for path in SERVERS if not unmet(read_strategy(path).requires)}
    for name, case in cases.items():
        assert not server_flags(case), name


def summaries(run_cli, tmp_path, time: str, *words: str) -> dict[str, Summary]:
    options = ("--rounds", "1", "--time", time, "--users", "6", "--out", "r.json")
    ran = run_cli("run", *words, *options, env={"PYTHONPATH": str(SUPPORT)})
    assert ran.returncode in (0, 1, 3), ran.stderr
    return {case.server: case for case in summarize(load(tmp_path / "r.json")).cases}
