"""The drill injects faults into real servers, and reports how they react."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import TESTS, WAITING

from under_siege.drill.faults import CONTROL, DEAD, HIDDEN, HURT, OK
from under_siege.drill.outcome_summary import FaultOutcome, fault_outcomes
from under_siege.record.result import load

RunCli = Callable[..., subprocess.CompletedProcess[str]]


def run_drill(folder: Path, run_cli: RunCli, *words: str) -> dict[str, FaultOutcome]:
    """Run a drill with one server, and return the outcome of each fault."""
    ran = run_cli("drill", *words, "--rounds", "1", "--out", str(folder / "d.json"), "--quiet")
    assert ran.returncode in (0, 1), ran.stderr
    found = load(folder / "d.json")
    assert not [one.failure for one in found.incidents if one.failure]
    return {outcome.fault: outcome for outcome in fault_outcomes(found.incidents)}


def test_a_server_that_loses_requests_at_shutdown_is_marked_as_degraded(tmp_path: Path, run_cli: RunCli) -> None:
    found = run_drill(tmp_path, run_cli, str(TESTS / "servers" / "exits_without_shutdown.py"), "--fault", "stop")
    assert found["stop"].mark == HURT
    assert found["stop"].figures["begun_lost"] >= 1


def test_disconnected_clients_waste_cpu_time_and_an_endless_task_stops_a_server_with_one_thread(
    tmp_path: Path, run_cli: RunCli
) -> None:
    found = run_drill(tmp_path, run_cli, "5", "--fault", "leave", "--fault", "endless")
    leave = found["leave"].figures
    assert leave["cpu_s"] > 0.8 * leave["asked_cpu_s"] > 0
    assert (found["leave"].mark, found["endless"].mark) == (HURT, DEAD)
    assert found["endless"].figures["left"] == 0
    assert found["leave_streams"].without == "its responses are not streams"


def test_a_flood_of_requests_is_counted_by_outcome(tmp_path: Path, run_cli: RunCli) -> None:
    found = run_drill(tmp_path, run_cli, "3", *WAITING, "--fault", "overload")["overload"]
    counts = [found.figures[name] for name in ("answered", "refused", "late", "lost", "wrong")]
    assert sum(counts) == 800
    assert found.figures["answered"] > 0


@pytest.mark.slow
def test_a_server_with_one_of_two_pools_broken_is_not_reported_as_recovered(tmp_path: Path, run_cli: RunCli) -> None:
    found = run_drill(tmp_path, run_cli, str(TESTS / "suites" / "two_pools"), "--fault", "worker", "--fault", "slow")
    assert found["worker"].mark in (HIDDEN, DEAD)
    assert found["worker"].figures["whole_s"] is None
    failed = {one.fault: set(one.requests.outcome) - {""} for one in load(tmp_path / "d.json").incidents}
    assert {fault: outcomes for fault, outcomes in failed.items() if outcomes} == {"worker": {"wrong"}}
    assert found[CONTROL].incidents[0].has_recovered


GTHREAD = """
[servers.gthread]
command = "python -m gunicorn -k gthread --threads 4 -b {host}:{port} --log-level error app:app"
"""
WSGI_APP = """
def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "4")])
    return [b"done"]
"""


def test_silent_connections_take_all_threads_of_a_server_that_waits_for_them(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "suite.toml").write_text(GTHREAD)
    (tmp_path / "app.py").write_text(WSGI_APP)
    assert run_drill(tmp_path, run_cli, str(tmp_path), "--fault", "silent")["silent"].mark == DEAD
    assert run_drill(tmp_path, run_cli, "2", "--fault", "silent")["silent"].mark == OK


def test_a_paused_process_loses_no_request_and_goes_on(tmp_path: Path, run_cli: RunCli) -> None:
    paused = run_drill(tmp_path, run_cli, "2", "--fault", "pause")["pause"]
    assert (paused.mark, paused.figures["lost"]) == (OK, 0)
    assert (paused.figures["whole_s"] or 0) > 1.5  # the recovery is found in windows of 0.25 s


@pytest.mark.parametrize("remembers", [False, True])
def test_the_number_of_jobs_lost_by_a_killed_server_is_reported(
    remembers: bool, tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    if remembers:
        monkeypatch.setenv("REMEMBERS", "yes")
    found = run_drill(tmp_path, run_cli, str(TESTS / "servers" / "forgets_jobs.py"), "--fault", "server")
    jobs = found["jobs_server"]
    assert jobs.mark == (OK if remembers else HURT)
    assert (jobs.figures["accepted"], jobs.figures["lost"]) == (40, 0 if remembers else 40)
    assert jobs.figures["takes_new"] == 1


def test_job_faults_do_not_apply_to_servers_without_jobs(tmp_path: Path, run_cli: RunCli) -> None:
    found = run_drill(tmp_path, run_cli, "5", *WAITING, "--fault", "server")
    assert (found["jobs_server"].mark, found["jobs_server"].without) == ("", "it accepts no jobs")


def test_a_suite_server_gets_only_applicable_faults(tmp_path: Path, run_cli: RunCli, monkeypatch) -> None:
    monkeypatch.setenv("SHOP_WAITS_S", "0.1")
    found = run_drill(tmp_path, run_cli, f"{TESTS / 'suites' / 'shop'}:plain", "--fault", "slow", "--fault", "endless")
    assert found["slow"].mark == OK
    assert found["endless"].without == "it does not run the built-in tasks"


STREAMS = """
[load]
path = "/chat"

[servers.awaits]
command = "python -m uvicorn --no-access-log --host {host} --port {port} fastapi_await:app"

[servers.thread]
command = "python -m uvicorn --no-access-log --host {host} --port {port} fastapi_thread:app"
"""


def test_a_stream_that_goes_on_without_its_client_is_told_from_one_that_ends(tmp_path: Path, run_cli: RunCli) -> None:
    (tmp_path / "suite.toml").write_text(STREAMS)
    for name in ("events.py", "fastapi_await.py", "fastapi_thread.py"):
        shutil.copy(TESTS.parent / "suites" / "streams" / name, tmp_path)
    found = {
        name: run_drill(tmp_path, run_cli, f"{tmp_path}:{name}", "--fault", "leave") for name in ("awaits", "thread")
    }
    assert {name: outcomes["leave_streams"].mark for name, outcomes in found.items()} == {"awaits": OK, "thread": HURT}
    ends, goes_on = (outcomes["leave_streams"].figures for outcomes in found.values())
    assert ends["on_s"] < goes_on["on_s"]
    assert found["thread"]["leave"].without == "its responses are streams"
