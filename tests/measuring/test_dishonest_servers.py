"""Controls: the bench detects real servers that do less work than the task needs, and accepts honest ones.

test_faulty_servers.py has servers with wrong responses, and test_noise_study.py many honest servers.
"""

import pytest
from conftest import SERVERS, SUPPORT, TESTS, server_flags

from under_siege.host.programs import unmet
from under_siege.judge.ranking import summarize
from under_siege.judge.summary import Summary
from under_siege.record.result import load
from under_siege.suite.strategies import read_strategy

DISHONEST = TESTS / "servers" / "dishonest"
SHORT_TASK = "sample_tasks:a_little_work"  # it uses just enough CPU time for the detection
# The possible reasons for the verdict on each server. At least one must be given; noise decides which.
REASONS = {
    "not_awaited_right_answer": {"above_ceiling", "too_fast", "too_cheap"},
    "only_the_first_time": {"above_ceiling", "too_fast", "too_cheap"},
    "sleeps_instead": {"too_cheap"},
    "works_after_the_answer": {"too_fast"},
}


HONEST = ("2_async", "4_async_processexecutor")


def test_servers_that_do_not_do_the_work_are_suspect_and_honest_servers_are_not_accused(run_cli, tmp_path) -> None:
    """Measure for 2 s, because a server may still be busy with the warm-up during the first second."""
    paths = [str(DISHONEST / f"{name}.py") for name in REASONS]
    cases = summaries(run_cli, tmp_path, "2s", *paths, *HONEST, "--task", SHORT_TASK)
    found = {name: {reason.code for reason in case.reasons} for name, case in cases.items()}
    for name, reasons in REASONS.items():
        assert cases[name].verdict == "suspect", found
        assert reasons & found[name], found
    for name in HONEST:
        assert not found[name] & set.union(*REASONS.values()), found


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
