"""Servers that do everything wrong: none may hang the run, lose another case's record or leave a process behind."""

import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from conftest import TESTS, accusations, bench_command, gone, wait_until
from planned import plan_of

from common.harness.length import Length
from common.harness.ready.expectation import Expectation
from common.harness.server import HOST, free_port, port_is_free
from common.model.record import Record, load
from common.report.dressing import exit_code
from common.report.judging.comparison import summarize
from common.report.judging.summary import Summary

HOSTILE = TESTS / "servers"
QUICK = ("--rounds", "1", "--time", "1s", "--users", "4", "--seed", "1")


def besiege(
    bench, tmp_path: Path, *servers: str, env: dict[str, str] | None = None
) -> dict[str, tuple[Record, Summary]]:
    """Runs the bench with these servers; their records and summaries."""
    ran = bench("run", *servers, *QUICK, "--out", "r.json", env=env)
    result = load(tmp_path / "r.json")
    records = {record.server: record for record in result.records}
    cases = summarize(result).cases
    assert ran.returncode == exit_code(result), ran.stderr
    return {case.server: (records[case.server], case) for case in cases}


def hostile(name: str) -> str:
    return str(HOSTILE / f"{name}.py")


def test_one_that_is_slow_to_start_is_waited_for(bench, tmp_path) -> None:
    record, summary = besiege(bench, tmp_path, hostile("slow_to_start"))["slow_to_start"]
    assert summary.verdict != "failed"
    assert record.ready_s >= 2
    assert summary.transactions > 0


def test_one_that_dies_at_once_is_reported_at_once_with_its_last_words(bench, tmp_path) -> None:
    cases = besiege(bench, tmp_path, hostile("dies_at_once"), "2")
    record, summary = cases["dies_at_once"]
    assert (summary.verdict, summary.rate_per_s) == ("failed", None)
    assert summary.reasons[0].code == "died"
    assert "exit code 1" in summary.reasons[0].message
    assert "its last line: no database at db:5432" in summary.reasons[0].message
    assert record.case_s < 5  # not the fifteen seconds that a server has to become ready
    assert cases["2_async"][1].verdict != "failed"


def test_one_that_dies_in_the_middle_fails_and_keeps_what_was_measured(bench, tmp_path) -> None:
    cases = besiege(bench, tmp_path, hostile("dies_in_the_middle"), "2")
    record, summary = cases["dies_in_the_middle"]
    assert summary.verdict == "failed"
    assert "its last line: Segmentation fault" in summary.reasons[0].message
    assert 0 < len(record.transactions.status) <= 10
    assert cases["2_async"][1].verdict != "failed"


@pytest.mark.parametrize("by", ["os._exit", "sys.exit"])
@pytest.mark.parametrize("at", ["1", "2", "3"], ids=["warm-up", "under siege", "last check"])
def test_one_that_a_request_sees_dying_is_reported_as_dead_with_its_last_words(by, at, bench, tmp_path) -> None:
    dying = {"DIES_AT": at, "DIES_BY": by}
    record, summary = besiege(bench, tmp_path, hostile("dies_when_asked"), env=dying)["dies_when_asked"]
    assert summary.reasons[0].code == "died"
    assert "ended with exit code 1" in summary.reasons[0].message
    assert "its last line: no database at db:5432" in summary.reasons[0].message
    assert bool(record.tool_command) == (at != "1")


@pytest.mark.parametrize("task", ["primes", "sample_tasks:waits_long"], ids=["under siege", "warm-up"])
def test_one_that_dies_by_itself_is_reported_with_its_last_words(task, bench, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    cases = besiege(bench, tmp_path, hostile("dies_after_a_second"), "--task", task)
    _, summary = cases["dies_after_a_second"]
    assert summary.reasons[0].code == "died"
    assert "its last line: no licence any more" in summary.reasons[0].message


def test_one_that_is_never_ready_is_given_up_after_fifteen_seconds(bench, tmp_path) -> None:
    cases = besiege(bench, tmp_path, hostile("never_ready"), "2")
    record, summary = cases["never_ready"]
    assert summary.reasons[0].code == "not_ready"
    assert "not ready within 15 s" in summary.reasons[0].message
    assert 15 <= record.case_s < 22
    assert cases["2_async"][1].verdict != "failed"


def test_one_that_floods_its_output_neither_blocks_nor_disturbs(bench, tmp_path) -> None:
    cases = besiege(bench, tmp_path, hostile("floods"), "2")
    record, summary = cases["floods"]
    assert summary.transactions > 0
    assert len(record.server_said) <= 4000
    assert "all work and no play makes a dull server" in record.server_said
    assert record.bench_cpu_s < 0.5 * record.load_s


def test_one_that_clings_to_its_port_is_ended_with_its_runaway_child(bench, tmp_path) -> None:
    before = set(psutil.pids())
    cases = besiege(bench, tmp_path, hostile("clings_to_its_port"), "2")
    record, summary = cases["clings_to_its_port"]
    assert summary.verdict != "failed"
    assert 5 <= record.stop_s < 6
    assert port_is_free(8000)
    assert not [pid for pid in set(psutil.pids()) - before if "clings" in _command(pid)]


def _command(pid: int) -> str:
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def test_a_wrong_answer_is_a_failure_not_a_number(bench, tmp_path) -> None:
    cases = besiege(bench, tmp_path, hostile("answers_wrongly"), hostile("answers_wrongly_under_load"))
    _, summary = cases["answers_wrongly"]
    assert summary.reasons[0].code == "wrong_answer"
    assert "GET / gives 200 with 2 bytes '42' instead of 200 with 4 bytes '4017'" in summary.reasons[0].message
    _, summary = cases["answers_wrongly_under_load"]
    assert (summary.verdict, summary.rate_per_s) == ("failed", None)
    assert "answers under load were not the right one: 0 bytes long instead of 4" in summary.reasons[0].message


@pytest.mark.parametrize(("name", "code"), [("stops_listening", "refused"), ("speaks_no_http", "no_answer")])
def test_one_that_can_not_be_talked_to_fails_alone(name, code, bench, tmp_path) -> None:
    cases = besiege(bench, tmp_path, hostile(name), "2")
    assert cases[name][1].verdict == "failed"
    assert cases[name][1].reasons[0].code == code
    assert cases[name][0].case_s < 5  # it lives, which is found out soon
    assert cases["2_async"][1].verdict != "failed"


def test_a_mistake_of_the_bench_costs_one_case_only(tmp_path, monkeypatch) -> None:
    import asyncio

    from common.harness import turn

    async def mistaken(*_):
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(turn, "warm_up", mistaken)
    plan = plan_of("2")
    record, expected = turn.new_record(plan, plan.cases[0], 1.0, 1), Expectation(b"1", 0.1, 0.1)
    asyncio.run(turn.Turn(plan, plan.cases[0], None, expected, Length(1.0, 2, expected), record, None).measure())
    assert record.failure.code == "bench_error"
    assert "ZeroDivisionError: a mistake" in record.failure.message


def test_errors_lower_the_availability_and_are_no_transactions(bench, tmp_path) -> None:
    record, summary = besiege(bench, tmp_path, hostile("fails_every_other_time"))["fails_every_other_time"]
    assert summary.verdict == "suspect"
    assert "availability" in accusations(summary)
    assert 30 < summary.availability_pct < 70
    assert summary.transactions == record.transactions.status.count(200)


@pytest.mark.parametrize(("by", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("moment", ["starting", "under siege", "stopping"])
def test_a_signal_stops_everything_within_six_seconds_and_keeps_what_is_done(by, code, moment, tmp_path) -> None:
    """The first case is done when the signal comes; the second one is at different points of its life."""
    second = {"starting": "never_ready", "under siege": "slow_to_start", "stopping": "clings_to_its_port"}[moment]
    out = tmp_path / "r.json"
    # With this seed the one that is done comes first.
    command = bench_command("run", "2", hostile(second), "--rounds", "1", "--time", "2s", "--users", "3")
    command += ["--seed", str(_seed_for(["2_async", second])), "--out", str(out)]
    before = set(psutil.pids())
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(out.exists)
        family = wait_until(lambda: _moment(process, second, moment, before))
        signalled_s = time.monotonic()
        process.send_signal(by)
        process.send_signal(by)  # impatience must not interrupt the cleaning up
        output, errors = process.communicate(timeout=20)
    assert time.monotonic() - signalled_s < 6.5
    assert process.returncode == code, errors
    wait_until(lambda: all(gone(one) for one in family), 5)
    assert "2_async" in output
    assert second not in output
    assert [record.server for record in load(out).records] == ["2_async"]
    assert all(port_is_free(port) for port in (8000, 8001))
    assert "Traceback" not in errors


def _seed_for(order: list[str]) -> int:
    for seed in range(100):
        plan = plan_of("2", hostile(order[1]), seed=seed)
        if [case.server for case in next(plan.in_order())] == [*order, "bare"]:
            return seed
    raise AssertionError


def _moment(process: subprocess.Popen, server: str, moment: str, before: set[int]) -> list[psutil.Process]:
    """All new processes, once the server has come to that point of its life."""
    new = [psutil.Process(pid) for pid in set(psutil.pids()) - before if psutil.pid_exists(pid)]
    commands = {one: _command(one.pid) for one in new}
    servers = [one for one, command in commands.items() if f"{server}.py" in command and "bench.py" not in command]
    besieged = any("siegerc" in command for command in commands.values())
    if not servers or (moment == "under siege" and not besieged):
        return []
    if moment == "stopping":
        _seen_siege.update({process.pid: True} if besieged else {})
        if besieged or not _seen_siege.get(process.pid):
            return []
    return [one for one in new if one.pid != process.pid]


_seen_siege: dict[int, bool] = {}


def test_a_server_whose_default_port_is_taken_gets_the_next_free_one(bench, tmp_path) -> None:
    import socket

    with socket.create_server((HOST, 8001)):
        taken = free_port(8001)
        record, summary = besiege(bench, tmp_path, "2")["2_async"]
    assert taken > 8001
    assert summary.verdict != "failed"
    assert str(taken) in record.tool_command[-1]
