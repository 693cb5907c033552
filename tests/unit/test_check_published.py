"""scripts/check_published.py finds a flag for each flaw in the committed results, and reports missing flags."""

import functools
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT
from source_code import script

from under_siege.record.result import load


@pytest.fixture(scope="module")
def check() -> ModuleType:
    return script("check_published")


SUITES = ["long-task", "wsgi", "static", "static-ports", "aiohttp", "webdav", "webdav-stressor"]


@functools.cache
def findings(name: str) -> Any:
    return script("check_published").Findings(load(ROOT / "results" / f"{name}.json.gz"))


def count_of(check: ModuleType, suite: str, *results: str) -> Any:
    count = check.SuiteCount(suite)
    count.runs += map(findings, results)
    return count


@pytest.mark.parametrize("suite", SUITES)
def test_each_flaw_of_a_published_benchmark_is_flagged_in_the_committed_result(check: ModuleType, suite: str) -> None:
    assert list(check.QUICK) == list(check.SMALL) == list(check.FAULTS) == SUITES
    lines = dict(count_of(check, suite, suite, suite).lines())
    assert [line for line, status in lines.items() if status == check.WRONG] == []
    assert lines


@pytest.mark.parametrize(
    ("suite", "other"), [("long-task", "wsgi"), ("webdav", "long-task"), ("static-ports", "static")]
)
def test_flaws_that_are_absent_are_reported_as_missed(check: ModuleType, suite: str, other: str) -> None:
    statuses = {status for _, status in count_of(check, suite, other).lines()}
    assert {check.WRONG} <= statuses <= {check.WRONG, check.UNDECIDED}


def test_servers_that_should_be_identical_but_are_reported_as_different_are_detected(
    check: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert False in [*count_of(check, "wsgi", "wsgi").runs[0].compare_duplicates(check.IDENTITY["wsgi"])]
    same_keep_alive = lambda one: one.case.get("keep_alive")  # noqa: E731
    monkeypatch.setitem(check.IDENTITY, "wsgi", same_keep_alive)
    *_, (line, status) = count_of(check, "wsgi", "wsgi").lines()
    assert status == check.WRONG
    assert "wrong_answer" in line  # the server node-own is not compared


@pytest.mark.parametrize(
    ("pairs", "status"), [([], 3), (["busy_machine"], 3), (["busy_machine", False], 0), ([True], 1)]
)
def test_a_suite_is_undecided_without_comparisons_and_wrong_if_duplicates_differ(
    check: ModuleType, pairs: list[bool | str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check.Findings, "compare_duplicates", lambda *_: iter(pairs))
    assert [line_status for _, line_status in count_of(check, "aiohttp", "aiohttp").lines()] == [status]
