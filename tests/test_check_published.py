"""scripts/check_published: what it counts is there in the committed results, and is missed where it is not there."""

import importlib.util
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType

import pytest
from conftest import ROOT

from common.model.record import load


@pytest.fixture(scope="module")
def check() -> ModuleType:
    loader = SourceFileLoader("check_published", str(ROOT / "scripts" / "check_published"))
    spec = importlib.util.spec_from_loader("check_published", loader)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


SUITES = ["long-task", "wsgi", "static", "static-ports", "aiohttp", "webdav", "webdav-stressor"]


@pytest.mark.parametrize("suite", SUITES)
def test_each_published_fault_is_flagged_in_the_committed_result(check: ModuleType, suite: str) -> None:
    assert list(check.QUICK) == list(check.SMALL) == list(check.FAULTS) == SUITES
    seen = check.Seen(load(ROOT / "results" / f"{suite}.json"))
    lines = dict(check.told(suite, [seen, seen]))
    assert [line for line, right in lines.items() if not right and "called different 0 of 0" not in line] == []
    assert lines


@pytest.mark.parametrize(
    ("suite", "other"), [("long-task", "wsgi"), ("webdav", "long-task"), ("static-ports", "static")]
)
def test_what_is_not_there_is_missed(check: ModuleType, suite: str, other: str) -> None:
    seen = check.Seen(load(ROOT / "results" / f"{other}.json"))
    assert not any(right for _, right in check.told(suite, [seen]))


def test_a_pair_that_is_called_different_is_counted(check: ModuleType) -> None:
    seen = check.Seen(load(ROOT / "results" / "wsgi.json"))
    assert [*seen.twice(check.TWICE["wsgi"])] == [False]
    everything_is_the_same = lambda one: one.case.get("keep_alive")  # noqa: E731
    assert True in [*seen.twice(everything_is_the_same)]
