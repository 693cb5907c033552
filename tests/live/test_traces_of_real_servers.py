"""Traces of real servers, which all tests read from a single run."""

import itertools

import pytest
from command import invoke

from under_siege.record.result import load
from under_siege.trace.timeline import Bar, Timeline, timelines


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> list[Timeline]:
    """Trace four requests to each of four servers with different kinds of strategies; return the timelines."""
    out = tmp_path_factory.mktemp("trace") / "trace.json"
    ended = invoke("trace", "2", "3", "4", "5", "--requests", "4", "--out", str(out))
    assert ended.returncode == 0, ended.stderr
    return timelines(load(out).traces)


def named(drawn: list[Timeline], name: str) -> Timeline:
    return next(one for one in drawn if one.name.startswith(name))


def bars_of(one: Timeline) -> list[Bar]:
    return [bar for lane in one.lanes for bar in lane.bars]


def overlap_s(one: Bar, other: Bar) -> float:
    """Estimate, from the CPU shares of the spans, how long both requests computed at the same time."""
    pairs = itertools.product([ran for ran in one.spans if ran.share], [ran for ran in other.spans if ran.share])
    return sum(
        max(0.0, min(a.to_s, b.to_s) - max(a.from_s, b.from_s)) * (a.share or 0) * (b.share or 0) for a, b in pairs
    )


def computed_s(bar: Bar) -> float:
    return sum((ran.to_s - ran.from_s) * (ran.share or 0) for ran in bar.spans)


def test_traced_requests_have_unique_numbers_and_run_before_their_responses(traced: list[Timeline]) -> None:
    for one in traced:
        assert sorted(bar.number for bar in bars_of(one)) == [1, 2, 3, 4]
        for bar in bars_of(one):
            assert bar.sent_s <= bar.spans[0].from_s <= bar.spans[-1].to_s <= bar.answered_s + 0.005


def test_the_event_loop_runs_tasks_one_after_the_other(traced: list[Timeline]) -> None:
    bars = bars_of(named(traced, "2_"))
    for one, other in itertools.pairwise(bars):
        assert one.spans[-1].to_s <= other.spans[0].from_s


def test_threads_under_the_gil_do_not_compute_in_parallel(traced: list[Timeline]) -> None:
    one = named(traced, "3_")
    assert len(one.lanes) > 1
    computed = sum(computed_s(bar) for bar in bars_of(one))
    assert computed <= 1.1 * one.done_s
    for some, other in itertools.combinations(bars_of(one), 2):
        assert overlap_s(some, other) < 0.25 * min(computed_s(some), computed_s(other))


def test_the_lanes_of_a_process_pool_are_named_after_processes(traced: list[Timeline]) -> None:
    one = named(traced, "4_")
    assert [lane.worker for lane in one.lanes] == [f"process {number}" for number in range(1, len(one.lanes) + 1)]


def test_tasks_that_yield_have_many_compute_spans(traced: list[Timeline]) -> None:
    one = named(traced, "5_")
    assert len(one.lanes) == 1
    assert all(len(bar.spans) > 10 for bar in bars_of(one))


def test_pings_are_sent_before_during_and_after_the_requests(traced: list[Timeline]) -> None:
    for one in traced:
        assert min(ping.due_s for ping in one.pings) < 0
        assert max(ping.due_s for ping in one.pings) > one.done_s
        steps = [after.due_s - before.due_s for before, after in itertools.pairwise(one.pings)]
        assert all(step == pytest.approx(0.025, abs=1e-5) for step in steps)
    assert named(traced, "2_").longest_ping_s > named(traced, "4_").longest_ping_s
