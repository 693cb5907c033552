"""Servers with wrong, slow or missing responses don't block the run, affect other cases or leave processes behind."""

import asyncio
import socket
from collections.abc import Iterator

import pytest
from bench_runs import SERVERS_DIRECTORY, MeasuredCase, run_servers, server_path
from conftest import ROOT
from leftover_processes import described, marking
from plans import plan_of, session_of

from common.options import FIRST_PORT
from under_siege.host.ports import claimed_port, port_is_free
from under_siege.measure import case_run
from under_siege.measure.plan import new_record
from under_siege.measure.siege_length import Length
from under_siege.paths import HOST
from under_siege.record.requests import CORRECT, LOAD, WRONG
from under_siege.suite.expected_response import Expectation

NAMES = (
    "answers_wrongly_under_load",
    "fails_every_second_time",
    "floods",
    "ignores_sigterm",
    "reports_an_enabled_gil",
    "sends_no_http",
    "slow_to_start",
    "stops_listening",
)
DISHONEST = ("not_awaited", "refuses_half", "wrong_later")
Cases = dict[str, MeasuredCase]


@pytest.fixture(scope="module")
def taken() -> Iterator[int]:
    """Occupy a port, and yield its number."""
    with socket.create_server((HOST, 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def measured_cases(taken: int, tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """Run all faulty servers and a correct one whose default port is taken; no process may be left behind."""
    folder = tmp_path_factory.mktemp("hostile")
    script = folder / f"{taken - FIRST_PORT + 1}_async.py"  # the number in its name sets the default port
    script.write_text((ROOT / "servers" / "2_async.py").read_text())
    dishonest = [str(SERVERS_DIRECTORY / "dishonest" / f"{name}.py") for name in DISHONEST]
    with marking() as left:
        found = run_servers(folder, [*map(server_path, NAMES), *dishonest, script.name])
        assert not described(left())
    return {**found, "async": found[script.stem]}


def test_a_correct_server_does_not_fail_in_the_same_run_and_uses_the_next_free_port(
    measured_cases: Cases, taken: int
) -> None:
    correct = measured_cases["async"]
    assert (correct.record.failure, correct.summary.availability_pct) == (None, 100)
    assert correct.summary.transactions > 0
    assert correct.port != taken


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("answers_wrongly_under_load", "wrong_answer"),
        ("not_awaited", "wrong_answer"),
        ("sends_no_http", "no_answer"),
        ("stops_listening", "refused"),
        ("wrong_later", "wrong_answer"),
    ],
)
def test_a_server_with_wrong_or_missing_responses_fails(name: str, code: str, measured_cases: Cases) -> None:
    summary = measured_cases[name].summary
    assert (summary.verdict, summary.rate_per_s, [reason.code for reason in summary.reasons]) == (
        "failed",
        None,
        [code],
    )


def test_the_reason_for_a_wrong_response_shows_it_and_the_right_one(measured_cases: Cases) -> None:
    wrong = measured_cases["answers_wrongly_under_load"]
    assert "0 bytes ''" in wrong.message
    assert "4 bytes 'done'" in wrong.message
    rows = wrong.record.requests.only(LOAD)
    assert (WRONG, 0) in set(zip(rows.outcome, rows.size_bytes, strict=True))


@pytest.mark.parametrize("name", ["fails_every_second_time", "refuses_half"])
def test_failed_requests_lower_availability_and_are_not_transactions(name: str, measured_cases: Cases) -> None:
    failing = measured_cases[name].summary
    assert failing.verdict == "suspect"
    assert "availability" in {reason.code for reason in failing.reasons}
    assert 0 < failing.availability_pct < 100
    assert failing.transactions == measured_cases[name].record.requests.only(LOAD).outcome.count(CORRECT)


def test_a_server_that_floods_its_output_does_not_block_the_bench(measured_cases: Cases) -> None:
    floods = measured_cases["floods"]
    assert floods.summary.transactions > 0
    assert len(floods.record.server_said) <= 4000
    assert "all work and no play makes a dull server" in floods.record.server_said


def test_the_record_names_the_module_that_enabled_the_gil(measured_cases: Cases) -> None:
    record = measured_cases["reports_an_enabled_gil"].record
    assert (record.gil, record.gil_enabled_by) == (True, "greenlet._greenlet")


def test_the_bench_waits_for_a_server_that_starts_slowly(measured_cases: Cases) -> None:
    slow = measured_cases["slow_to_start"]
    assert slow.record.failure is None
    assert slow.record.ready_s >= 2
    assert slow.summary.transactions > 0


def test_a_server_that_ignores_sigterm_is_killed_with_its_daemon(measured_cases: Cases) -> None:
    clinging = measured_cases["ignores_sigterm"]
    assert clinging.record.failure is None  # its port is free again
    assert clinging.record.stop_s >= 5


def test_ports_claimed_by_another_run_are_skipped() -> None:
    with claimed_port(FIRST_PORT) as first:
        port = first.getsockname()[1]
        assert port_is_free(port)  # nothing listens on a claimed port
        with claimed_port(port) as second:
            assert second.getsockname()[1] > port
    with claimed_port(port) as again:
        assert again.getsockname()[1] >= port


def test_an_exception_in_the_bench_is_recorded_as_the_failure_of_one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    async def mistaken(*_):
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(case_run, "warm_up", mistaken)
    plan = plan_of("2")
    record, expected = new_record(plan, plan.cases[0], 1.0, 1), Expectation(b"1", 0.1, 0.1)
    one = case_run.CaseRun(session_of(plan, print), plan.cases[0], expected, Length(1.0, 2, expected), record, None)
    asyncio.run(one.measure())
    assert record.failure.code == "bench_error"
    assert "ZeroDivisionError: a mistake" in record.failure.message
