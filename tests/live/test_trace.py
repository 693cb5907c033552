"""Traces of real servers. What they show is tested in tests/unit/trace."""

import contextlib
import itertools
import sys
from functools import partial
from pathlib import Path

import pytest
from bench_runs import server_path, without_a_ceiling
from command import CommandResult, invoke
from conftest import SUPPORT
from plans import plan_of

from under_siege.measure.rounds import run_plan
from under_siege.measure.session import Reporting
from under_siege.record.record import CaseFailedError
from under_siege.record.result import Result, load
from under_siege.show.progress_bar import ProgressBar
from under_siege.trace import trace_run
from under_siege.trace.timeline import Bar, Timeline, timelines

TEST_SERVERS = ("answers_wrongly", "sends_no_headers", "fails_with_a_traceback")
Traced = tuple[CommandResult, Result]


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Traced:
    """Trace four requests to strategies of different kinds, and to servers that fail or report no times."""
    folder = tmp_path_factory.mktemp("trace")
    servers = ("2", "5", "7", *map(server_path, TEST_SERVERS))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(trace_run, "is_crowded", lambda _: False)  # on a busy machine, each trace would be repeated
        ran = invoke("trace", *servers, "--requests", "4", "--out", "t.json", "--quiet", folder=folder)
    return ran, load(folder / "t.json")


def timeline(traced: Traced, number: int) -> Timeline:
    return next(one for one in timelines(traced[1].traces) if one.name.startswith(f"{number}_"))


def bars_of(one: Timeline) -> list[Bar]:
    return [bar for lane in one.lanes for bar in lane.bars]


def test_servers_that_fail_or_cannot_run_are_reported_beside_the_traces_of_the_others(traced: Traced) -> None:
    ran, result = traced
    failures = {trace.server: trace.failure for trace in result.traces if trace.failure}
    assert failures.keys() == {"answers_wrongly", "fails_with_a_traceback"}
    assert failures["fails_with_a_traceback"].message.endswith("KeyError: 'customer'")
    assert ran.returncode == 1
    if sys.version_info < (3, 14):
        assert [left.server for left in result.left_out] == ["7_async_interpreters"]
    (unreported,) = [trace for trace in result.traces if trace.server == "sends_no_headers"]
    assert unreported.requests.ran_s == [[]] * 4


@pytest.mark.parametrize("number", [2, 5])
def test_traced_requests_have_unique_numbers_and_run_before_their_responses(traced: Traced, number: int) -> None:
    bars = bars_of(timeline(traced, number))
    assert sorted(bar.number for bar in bars) == [1, 2, 3, 4]
    for bar in bars:
        assert bar.sent_s <= bar.spans[0].from_s <= bar.spans[-1].to_s <= bar.answered_s + 0.005


def test_the_event_loop_runs_tasks_one_after_the_other_or_in_turns(traced: Traced) -> None:
    blocking, yielding = timeline(traced, 2), timeline(traced, 5)
    for one, other in itertools.pairwise(bars_of(blocking)):
        assert one.spans[-1].to_s <= other.spans[0].from_s
    assert len(yielding.lanes) == 1
    assert all(len(bar.spans) > 10 for bar in bars_of(yielding))


def test_pings_are_sent_at_a_fixed_rate_before_and_during_the_requests(traced: Traced) -> None:
    one = timeline(traced, 2)
    assert min(ping.due_s for ping in one.pings) < 0
    assert max(ping.due_s for ping in one.pings) > 0
    steps = [after.due_s - before.due_s for before, after in itertools.pairwise(one.pings)]
    assert steps == [pytest.approx(0.025, abs=1e-5)] * len(steps)


def test_each_server_is_traced_after_its_last_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed server is restarted for its trace."""
    started: list[str] = []

    @contextlib.asynccontextmanager
    async def running(plan, case, *_):
        started.append(case.server)
        raise CaseFailedError("died", "it is not needed")
        yield

    monkeypatch.setattr("under_siege.trace.trace_run.running", running)
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    with without_a_ceiling():
        servers = ("2", Path(server_path("answers_wrongly")))
        plan = plan_of(*servers, task="sample_tasks:a_blink", rounds=2, time_s=0.3)
        make_tracer = partial(trace_run.RequestTracer, requests=3)
        result, *_ = run_plan(
            plan, Reporting(tmp_path / "r.json", ProgressBar(9, quiet=True), []), make_tracers=[make_tracer]
        )
    traces = [(one.server, bool(one.failure), len(one.requests.sent_s), one.workers) for one in result.traces]
    assert traces == [("2_async", False, 3, 1), ("answers_wrongly", True, 0, None)]
    assert started == ["answers_wrongly"]
