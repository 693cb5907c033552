"""Servers that answer wrongly or not at all: none may hang the run, lose another case's record or leave anything."""

import asyncio
import socket
from pathlib import Path

import pytest
from besieging import Besieged, besiege, hostile
from conftest import ROOT, accusations
from planned import plan_of

from common.server_contract import FIRST_PORT
from under_siege.environments.services import Services
from under_siege.paths import HOST
from under_siege.processes.ports import claimed_port, port_is_free
from under_siege.run import case_run
from under_siege.run.duration import Length
from under_siege.run.plan import new_record
from under_siege.targets.expectation import Expectation

NAMES = (
    "answers_wrongly",
    "answers_wrongly_under_load",
    "fails_every_other_time",
    "floods",
    "reports_an_enabled_gil",
    "speaks_no_http",
    "stops_listening",
)


@pytest.fixture(scope="module")
def taken() -> int:
    """A port that somebody else listens on."""
    with socket.create_server((HOST, 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture(scope="module")
def besieged(taken: int, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Besieged]:
    """One run with all of them, and with one that is as it should be, but whose default port is taken."""
    folder = tmp_path_factory.mktemp("hostile")
    script = folder / f"{taken - FIRST_PORT + 1}_async.py"  # by its number it would listen there
    script.write_text((ROOT / "servers" / "2_async.py").read_text())
    found = besiege(folder, [*map(hostile, NAMES), script.name])
    return {**found, "async": found[script.stem]}


@pytest.mark.figures
def test_one_that_floods_its_output_neither_blocks_nor_disturbs(besieged: dict[str, Besieged]) -> None:
    floods = besieged["floods"]
    assert floods.summary.transactions > 0
    assert len(floods.record.server_said) <= 4000
    assert "all work and no play makes a dull server" in floods.record.server_said
    assert floods.record.bench_cpu_s < 0.5 * floods.record.load_s


def test_a_wrong_answer_is_a_failure_not_a_number(besieged: dict[str, Besieged]) -> None:
    wrong = besieged["answers_wrongly"]
    assert wrong.why == "wrong_answer"
    assert "GET / gives 200 with 2 bytes '42' instead of 200 with 4 bytes 'done'" in wrong.words
    wrong = besieged["answers_wrongly_under_load"]
    assert (wrong.summary.verdict, wrong.summary.rate_per_s) == ("failed", None)
    assert "asked for as siege does, gives 200 with 0 bytes '' instead of 200 with 4 bytes 'done'" in wrong.words
    assert 0 in wrong.record.transactions.size_bytes


@pytest.mark.parametrize(("name", "code"), [("stops_listening", "refused"), ("speaks_no_http", "no_answer")])
def test_one_that_can_not_be_talked_to_fails_alone(name: str, code: str, besieged: dict[str, Besieged]) -> None:
    assert besieged[name].summary.verdict == "failed"
    assert besieged[name].why == code
    assert besieged[name].record.case_s < 12  # it lives, which is found out soon


@pytest.mark.figures
def test_errors_lower_the_availability_and_are_no_transactions(besieged: dict[str, Besieged]) -> None:
    failing = besieged["fails_every_other_time"]
    assert failing.summary.verdict == "suspect"
    assert "availability" in accusations(failing.summary)
    assert 30 < failing.summary.availability_pct < 70
    assert failing.summary.transactions == failing.record.transactions.status.count(200)


def test_the_record_names_the_module_that_enabled_the_gil(besieged: dict[str, Besieged]) -> None:
    record = besieged["reports_an_enabled_gil"].record
    assert (record.gil, record.gil_enabled_by) == (True, "greenlet._greenlet")


@pytest.mark.figures
def test_the_one_beside_them_is_measured_on_the_next_port_that_is_free(besieged: dict[str, Besieged], taken) -> None:
    assert besieged["async"].summary.verdict != "failed"
    assert taken < besieged["async"].port < taken + 100


def test_a_port_that_another_run_has_claimed_is_passed_by() -> None:
    with claimed_port(FIRST_PORT) as first:
        port = first.getsockname()[1]
        assert port_is_free(port)  # for the server that it was claimed for
        with claimed_port(port) as second:
            assert second.getsockname()[1] > port
    with claimed_port(port) as again:
        assert again.getsockname()[1] >= port


def test_a_mistake_of_the_bench_costs_one_case_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
