"""scripts/check_published.py finds each fault in the committed results, and reports a missed fault elsewhere."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import ROOT

from common.model.record import load


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_published", ROOT / "scripts" / "check_published.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SUITES = ["long-task", "wsgi", "static", "static-ports", "aiohttp", "webdav", "webdav-stressor"]


def counted(check: ModuleType, suite: str, *results: str) -> Any:
    count = check.Count(suite)
    count.seen += [check.Seen(load(ROOT / "results" / f"{name}.json")) for name in results]
    return count


@pytest.mark.parametrize("suite", SUITES)
def test_each_published_fault_is_flagged_in_the_committed_result(check: ModuleType, suite: str) -> None:
    assert list(check.QUICK) == list(check.SMALL) == list(check.FAULTS) == SUITES
    lines = dict(counted(check, suite, suite, suite).told())
    assert [line for line, status in lines.items() if status == check.WRONG] == []
    assert lines


@pytest.mark.parametrize(
    ("suite", "other"), [("long-task", "wsgi"), ("webdav", "long-task"), ("static-ports", "static")]
)
def test_what_is_not_there_is_missed(check: ModuleType, suite: str, other: str) -> None:
    assert (
        {check.WRONG} <= {status for _, status in counted(check, suite, other).told()} <= {check.WRONG, check.UNDECIDED}
    )


def test_a_pair_that_is_called_different_is_counted(check: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert False in [*counted(check, "wsgi", "wsgi").seen[0].twice(check.TWICE["wsgi"])]
    everything_is_the_same = lambda one: one.case.get("keep_alive")  # noqa: E731
    monkeypatch.setitem(check.TWICE, "wsgi", everything_is_the_same)
    *_, (line, status) = counted(check, "wsgi", "wsgi").told()
    assert status == check.WRONG
    assert "called different 0" not in line
    assert "not judged (wrong_answer)" in line  # node-own, which is compared with nothing


def test_a_suite_that_does_not_run_is_told_and_the_others_run(
    check: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(check.FORMS["small"], "static-ports", ("suites/nowhere",))
    count = check.Count("static-ports")
    count.run(1, "small", tmp_path)
    (flagged, _), (problem, status) = count.told()
    assert "flagged 0 of 1" in flagged
    assert "run 1 ended with 2: " in problem
    assert "nowhere" in problem
    assert status == check.WRONG


@pytest.mark.parametrize(
    ("pairs", "status"), [([], 3), (["busy_machine"], 3), (["busy_machine", False], 0), ([True], 1)]
)
def test_a_pair_that_was_never_judged_is_undecided_and_one_that_is_told_apart_is_wrong(
    check: ModuleType, pairs: list[bool | str], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check.Seen, "twice", lambda *_: iter(pairs))
    assert [told for _, told in counted(check, "aiohttp", "aiohttp").told()] == [status]
