"""Controls: the bench detects real servers that do less work than the task needs, and accepts honest ones.

test_faulty_servers.py has servers with wrong responses, and test_honest_servers.py more honest ones.
"""

from bench_runs import run_once
from conftest import SUPPORT, TESTS

from under_siege.judge.ranking import summarize

SHORT_TASK = "sample_tasks:a_little_work"  # it uses just enough CPU time for the detection
LIARS = ("not_awaited_right_answer", "only_the_first_time", "sleeps_instead", "works_after_the_answer")
HONEST = ("2_async", "4_async_processexecutor")
PROOFS = {"above_ceiling", "too_fast", "too_cheap", "backlog"}  # noise decides which of them a liar gets


def test_servers_that_do_not_do_the_work_are_flagged_and_honest_servers_are_not_accused(tmp_path, monkeypatch) -> None:
    """Measure for 2 s, because a server may still be busy with the warm-up during the first second."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    paths = [str(TESTS / "servers" / "dishonest" / f"{name}.py") for name in LIARS]
    result, _ = run_once(tmp_path, *paths, *HONEST, "--task", SHORT_TASK, "--time", "2s", "--users", "6")
    cases = {case.server: case for case in summarize(result).cases}
    codes = {name: {reason.code for reason in case.reasons} for name, case in cases.items()}
    for name in LIARS:
        assert cases[name].verdict != "ok", codes
        # If other programs make the interval useless, the case is unclear, and nothing proves that the server lies.
        assert codes[name] & (PROOFS | {"wide_interval"}), codes
    for name in HONEST:
        assert not codes[name] & PROOFS, codes
