"""`--jobs`: which servers take jobs, and what it can't be combined with."""

import json
import sys

import pytest
from conftest import ROOT
from simulated_record import record_of, result_of

from common.errors import BadInputError
from under_siege.measure.plan import make_plan
from under_siege.record.result import save
from under_siege.suite.selection import in_style, suite_of
from under_siege.suite.server_files import all_strategies, strategies_suite


def test_list_marks_strategies_that_accept_jobs(run_cli) -> None:
    listed = json.loads(run_cli("list", "--json").stdout)
    assert (
        {one["server"] for one in listed if one["jobs"]}
        == {one.name for one in all_strategies() if "JOBS" in one.path.read_text()}
        >= {"10_async_dask", "12_async_celery"}
    )


def test_strategies_that_accept_no_jobs_are_left_out_of_the_plan_with_a_reason() -> None:
    suite = in_style(strategies_suite(["2", "3", "10"]), "jobs")
    plan = make_plan(suite, {"python": [sys.executable]}, time_s=None, rounds=1)
    assert {(one.server, one.reason) for one in plan.left_out} == {
        ("2_async", "accepts no jobs"),
        ("3_async_threadexecutor", "accepts no jobs"),
    }
    assert [(case.server, case.get("style")) for case in (*plan.cases, *plan.ceilings)] == [
        ("10_async_dask", "jobs"),
        ("bare", None),
    ]
    with pytest.raises(BadInputError, match="10_async_dask or 12_async_celery"):
        make_plan(in_style(strategies_suite(["2"]), "jobs"), {"python": [sys.executable]}, time_s=None, rounds=1)


def test_a_suite_with_a_script_rejects_the_jobs_style() -> None:
    with pytest.raises(BadInputError, match="--jobs"):
        suite_of([str(ROOT / "suites" / "webdav")], style="jobs")


def test_run_with_trace_rejects_the_jobs_style(run_cli) -> None:
    ended = run_cli("run", "10", "--jobs", "--trace", "--quiet")
    assert (ended.returncode, ended.stderr.count("\n"), "--jobs:" in ended.stderr) == (2, 1, True)


def test_results_of_different_styles_are_not_compared(run_cli, tmp_path) -> None:
    save(result_of([record_of("10_async_dask")]), tmp_path / "waiting.json")
    save(result_of([record_of("10_async_dask", parameters={"style": "jobs"})]), tmp_path / "jobs.json")
    ended = run_cli("compare", "waiting.json", "jobs.json")
    assert (ended.returncode, ended.stderr.count("\n"), "styles" in ended.stderr) == (2, 1, True)
