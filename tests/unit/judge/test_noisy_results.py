"""Results of default runs, recorded on a noisy machine: all cases are `ok`, and all conclusions are the same."""

import functools
from pathlib import Path

import pytest
from conftest import TESTS

from under_siege.judge.ranking import Comparison, summarize
from under_siege.record.result import load
from under_siege.run.conclusion import answers

RESULTS = sorted((TESTS / "noisy_results").glob("*.json.gz"))
POOLS = {"4_async_processexecutor", "8_prefork", "9_async_pebble"}
ON_ONE_CPU = {"1_sync", "2_async", "3_async_threadexecutor", "5_asyncio", "6_gevent", "11_fastapi"}


@functools.cache
def of(path: Path) -> Comparison:
    return summarize(load(path))


@pytest.fixture(params=RESULTS, ids=lambda path: path.stem)
def comparison(request: pytest.FixtureRequest) -> Comparison:
    return of(request.param)


def test_every_case_of_a_noisy_result_has_the_verdict_ok(comparison: Comparison) -> None:
    assert {case.server: case.reasons for case in comparison.cases if case.verdict != "ok"} == {}


def test_process_pools_rank_first_and_strategies_on_one_cpu_rank_lower(comparison: Comparison) -> None:
    first = {case.server for case in comparison.cases if case.rank == 1}
    assert first >= POOLS
    assert not first & ON_ONE_CPU


def test_a_strategy_on_one_cpu_reaches_about_half_of_the_ceiling(comparison: Comparison) -> None:
    shares = {case.server: case.of_ceiling.mean for case in comparison.cases if case.server in ON_ONE_CPU}
    assert shares == pytest.approx(dict.fromkeys(ON_ONE_CPU, 0.5), abs=0.08)


def test_a_process_pool_is_recommended(comparison: Comparison) -> None:
    assert answers(comparison)[0].case.server in POOLS
