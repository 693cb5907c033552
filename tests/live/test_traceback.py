"""Errors of a server are reported with the exception from its traceback on stderr; see also test_trace.py."""

from pathlib import Path

from bench_runs import server_path, without_a_ceiling
from command import invoke
from conftest import WAITING

from under_siege.record.requests import CHECK
from under_siege.record.result import load


def test_a_failed_response_check_under_load_shows_the_exception(tmp_path: Path) -> None:
    few = ["--rounds", "1", "--time", "3s", "--users", "1", "--quiet", "--out", "r.json"]
    with without_a_ceiling():
        ended = invoke(
            "run", server_path("fails_with_a_traceback"), *few, *WAITING, folder=tmp_path, env={"UNDER_LOAD": "yes"}
        )
    (record,) = load(tmp_path / "r.json").records
    assert ended.returncode in (1, 3), ended.stderr
    assert any(problem.endswith("KeyError: 'customer'") for problem in record.requests.only(CHECK).problem)
