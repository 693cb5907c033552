"""Servers with wrong or missing responses must not block the run, affect other cases or leave processes behind."""

import asyncio
import socket
from pathlib import Path

import pytest
from bench_runs import MeasuredCase, run_servers, server_path
from conftest import ROOT, server_flags
from plans import plan_of

from common.options import FIRST_PORT
from under_siege.host.ports import claimed_port, port_is_free
from under_siege.host.services import Services
from under_siege.measure import case_run
from under_siege.measure.duration import Length
from under_siege.measure.plan import new_record
from under_siege.paths import HOST
from under_siege.suite.expected_response import Expectation

NAMES = (
    "answers_wrongly",
    "answers_wrongly_under_load",
    "fails_every_second_time",
    "floods",
    "reports_an_enabled_gil",
    "sends_no_http",
    "stops_listening",
)


@pytest.fixture(scope="module")
def taken() -> int:
    """Occupy a port, and yield its number."""
    with socket.create_server((HOST, 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def measured_cases(taken: int, tmp_path_factory: pytest.TempPathFactory) -> dict[str, MeasuredCase]:
    """Run all faulty servers and a correct one whose default port is taken."""
    folder = tmp_path_factory.mktemp("hostile")
    script = folder / f"{taken - FIRST_PORT + 1}_async.py"  # the number in its name sets the default port
    script.write_text((ROOT / "servers" / "2_async.py").read_text())
    found = run_servers(folder, [*map(server_path, NAMES), script.name])
    return {**found, "async": found[script.stem]}


def test_a_server_that_floods_its_output_does_not_block_the_bench(measured_cases: dict[str, MeasuredCase]) -> None:
    floods = measured_cases["floods"]
    assert floods.summary.transactions > 0
    assert len(floods.record.server_said) <= 4000
    assert "all work and no play makes a dull server" in floods.record.server_said
    assert floods.record.bench_cpu_s < 0.5 * floods.record.load_s


def test_a_server_with_wrong_responses_gets_the_verdict_failed(measured_cases: dict[str, MeasuredCase]) -> None:
    wrong = measured_cases["answers_wrongly"]
    assert wrong.code == "wrong_answer"
    assert "GET / returned 200 with 2 bytes '42' instead of 200 with 4 bytes 'done'" in wrong.message
    wrong = measured_cases["answers_wrongly_under_load"]
    assert (wrong.summary.verdict, wrong.summary.rate_per_s) == ("failed", None)
    assert "sent as siege sends it, returned 200 with 0 bytes '' instead of 200 with 4 bytes 'done'" in wrong.message
    assert 0 in wrong.record.transactions.size_bytes


@pytest.mark.parametrize(("name", "code"), [("stops_listening", "refused"), ("sends_no_http", "no_answer")])
def test_a_server_that_stops_listening_or_sends_no_http_fails_before_the_readiness_timeout(
    name: str, code: str, measured_cases: dict[str, MeasuredCase]
) -> None:
    assert measured_cases[name].summary.verdict == "failed"
    assert measured_cases[name].code == code
    assert measured_cases[name].record.case_s < 12  # less than the readiness timeout of 15 s


def test_error_responses_lower_availability_and_are_not_transactions(measured_cases: dict[str, MeasuredCase]) -> None:
    failing = measured_cases["fails_every_second_time"]
    assert failing.summary.verdict == "suspect"
    assert "availability" in server_flags(failing.summary)
    assert 30 < failing.summary.availability_pct < 70
    assert failing.summary.transactions == failing.record.transactions.status.count(200)


def test_the_record_names_the_module_that_enabled_the_gil(measured_cases: dict[str, MeasuredCase]) -> None:
    record = measured_cases["reports_an_enabled_gil"].record
    assert (record.gil, record.gil_enabled_by) == (True, "greenlet._greenlet")


def test_a_server_whose_default_port_is_taken_uses_the_next_free_port(
    measured_cases: dict[str, MeasuredCase], taken
) -> None:
    assert measured_cases["async"].summary.verdict != "failed"
    assert taken < measured_cases["async"].port < taken + 100


def test_ports_claimed_by_another_run_are_skipped() -> None:
    with claimed_port(FIRST_PORT) as first:
        port = first.getsockname()[1]
        assert port_is_free(port)  # nothing listens on a claimed port
        with claimed_port(port) as second:
            assert second.getsockname()[1] > port
    with claimed_port(port) as again:
        assert again.getsockname()[1] >= port


def test_an_exception_in_the_bench_is_recorded_as_the_failure_of_one_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mistaken(*_):
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(case_run, "warm_up", mistaken)
    plan = plan_of("2")
    record, expected = new_record(plan, plan.cases[0], 1.0, 1), Expectation(b"1", 0.1, 0.1)
    one = case_run.CaseRun(
        plan, plan.cases[0], None, None, expected, Length(1.0, 2, expected), Services(), record, None
    )
    asyncio.run(one.measure())
    assert record.failure.code == "bench_error"
    assert "ZeroDivisionError: a mistake" in record.failure.message
