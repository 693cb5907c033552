"""The drill injects faults into real servers. What it says about them is tested in tests/unit/drill."""

import itertools
import re
import shutil
import sys
from pathlib import Path

import pytest
from command import invoke
from conftest import TESTS
from scripted_server import write_suite

from under_siege.drill import injection, recovery_check, reload_injection
from under_siege.drill.faults import CONTROL, DEAD, HIDDEN, HURT, OK
from under_siege.drill.outcome_summary import FaultOutcome, fault_outcomes
from under_siege.record.record import Incident
from under_siege.record.requests import CORRECT, LOAD, OPEN, WRONG
from under_siege.record.result import load

Outcomes = dict[tuple[str, str], FaultOutcome]  # by server and fault


def run_drill(folder: Path, target: str | Path, *faults: str) -> Outcomes:
    """Inject these faults once, with less load and other limits than usual."""
    words = [word for fault in faults for word in ("--fault", fault)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recovery_check, "RECOVERY_LIMIT_S", 30.0)  # on a busy machine, a server takes longer
        for name, value in {"FLOOD": 100, "SILENT_S": 3.0, "NEVER_S": 2.0, "STREAMS": 4, "AFTER_FAULT_S": 1.2}.items():
            patched.setattr(injection, name, value)
        ran = invoke("drill", str(target), *words, "--rounds", "1", "--out", "d.json", folder=folder)
        assert re.search(r"bench\.py: \d+ incidents take about \d+ (s|min)\n", ran.stderr)
    incidents = load(folder / "d.json").incidents
    assert [incident.failure for incident in incidents if incident.failure] == [], ran.stderr
    outcomes = fault_outcomes(incidents)
    assert ran.returncode == any(outcome.mark in (DEAD, HIDDEN) for outcome in outcomes)
    return {(outcome.case.server, outcome.fault): outcome for outcome in outcomes}


def last_answer_s(incident: Incident) -> float:
    """Return when the last correct response to the load arrived."""
    rows = incident.requests.only(LOAD)
    return max(at_s for at_s, outcome in zip(rows.ended_s, rows.outcome, strict=True) if outcome == CORRECT)


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FaultOutcome]:
    script = TESTS / "servers" / "loses_work.py"
    found = run_drill(tmp_path_factory.mktemp("lossy"), script, "server", "stop", "endless")
    return {fault: outcome for (_, fault), outcome in found.items()}


def test_the_number_of_jobs_lost_by_a_killed_server_is_reported(lossy: dict[str, FaultOutcome]) -> None:
    jobs = lossy["jobs_server"]
    assert [jobs.figures[name] for name in ("accepted", "answered", "lost", "takes_new")] == [40, 20, 20, 1]
    assert jobs.mark == HURT


def test_a_server_that_loses_requests_at_shutdown_is_marked_as_degraded(lossy: dict[str, FaultOutcome]) -> None:
    assert (lossy["stop"].mark, lossy["stop"].figures["begun_lost"], lossy["stop"].figures["exit"]) == (HURT, 1, 0)
    assert (lossy["stop_long"].mark, lossy["stop_long"].figures["begun_lost"]) == (OK, 1)


def test_an_endless_task_stops_a_server_that_runs_one_task_at_a_time(lossy: dict[str, FaultOutcome]) -> None:
    (incident,) = lossy["endless"].incidents
    assert last_answer_s(incident) < incident.ended_s - 0.5


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FaultOutcome]:
    folder = tmp_path_factory.mktemp("scripted")
    found = run_drill(folder, write_suite(folder, "/slow/0.05"), "leave", "overload", "pause")
    return {fault: outcome for (_, fault), outcome in found.items()}


def test_the_next_request_after_clients_disconnect_is_measured(scripted: dict[str, FaultOutcome]) -> None:
    assert (scripted["leave"].figures["next_s"] or 0) >= 0.05
    assert scripted["leave_streams"].without == injection.Need.STREAM


def test_clients_disconnect_in_the_middle_of_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injection, "LEAST_STREAM_CPU_S", 0.0)  # a stream that mostly waits is cheap to test
    found = run_drill(tmp_path, write_suite(tmp_path, "/stream/20/0.02"), "leave")
    assert {"on_s", "cpu_s", "rest_cpu_s", "memory_bytes"} <= found["scripted", "leave_streams"].figures.keys()
    assert found["scripted", "leave"].without == injection.Need.WHOLE


def test_a_flood_of_requests_is_counted_by_outcome(scripted: dict[str, FaultOutcome]) -> None:
    figures = scripted["overload"].figures
    counts = [figures[name] for name in ("answered", "refused", "late", "lost", "wrong")]
    assert counts == [100, 0, 0, 0, 0]


def test_a_paused_process_loses_no_request_and_goes_on(scripted: dict[str, FaultOutcome]) -> None:
    (incident,) = scripted["pause"].incidents
    rows = incident.requests.only(LOAD)
    assert set(rows.outcome) <= {CORRECT, OPEN}
    ended_s = [*sorted(rows.ended_s), incident.ended_s]
    assert max(after - before for before, after in itertools.pairwise(ended_s)) > 1.5
    assert incident.has_recovered


def stopped(folder: Path, load: str, words: str) -> Outcomes:
    command = f"'{sys.executable} {TESTS / 'servers' / 'stops.py'} {{port}} {words}'"
    (folder / "suite.toml").write_text(
        f'[load]\nusers = 2\n{load}\n[ping]\npath = "/ping"\n[servers.one]\ncommand = {command}\n'
    )
    return run_drill(folder, folder / "suite.toml", "stop")


ENDLESS = 'path = "/events"\nstream = "sse"\nevents = 3'


@pytest.mark.parametrize(("load", "fault"), [("", "stop"), (ENDLESS, "stop_streams")])
def test_requests_that_were_cut_off_by_the_end_of_the_server_are_counted(load: str, fault: str, tmp_path: Path) -> None:
    found = stopped(tmp_path, load, "3 1.0")
    figures = found["one", fault].figures
    assert [figures[name] for name in ("asked", "answered", "begun_lost", "exit")] == [8, 3, 5, 7]
    assert figures["exit_s"] >= 1
    other = found["one", "stop_streams" if fault == "stop" else "stop"]
    assert other.without == (injection.Need.STREAM if fault == "stop" else injection.Need.WHOLE)


def test_clients_of_streams_stay_until_the_server_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server wait for its clients, who would leave a stream after three events without the drill."""
    monkeypatch.setattr(injection, "STOP_LIMIT_S", 3.0)
    outcome = stopped(tmp_path, ENDLESS, "0 0 --until-left")["one", "stop_streams"]
    assert (outcome.figures.get("exit"), outcome.mark) == (None, DEAD)


def test_memory_that_slow_readers_need_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ten clients read 8 MB slowly from a server that has them in memory once, or once for each client."""
    monkeypatch.setattr(injection, "READ_S", 1.0)
    script = TESTS / "servers" / "sends_much.py"
    tables = (
        f"[servers.{name}]\ncommand = '{sys.executable} {script} {{port}} {option}'\n"
        for name, option in (("shares", ""), ("buffers", "--buffer"))
    )
    (tmp_path / "suite.toml").write_text('[ping]\npath = "/ping"\n' + "".join(tables))
    found = run_drill(tmp_path, tmp_path / "suite.toml", "readers")
    figures = {name: found[name, "readers"].figures for name in ("shares", "buffers")}
    added = {name: one["memory_bytes"] - one["memory_before_bytes"] for name, one in figures.items()}
    assert added["buffers"] > 40_000_000 > 20_000_000 > added["shares"]
    assert found["buffers", "readers"].mark == HURT


def test_small_responses_are_not_read_slowly(tmp_path: Path) -> None:
    found = run_drill(tmp_path, write_suite(tmp_path, "/bytes/1000"), "readers")
    assert found["scripted", "readers"].without == injection.Need.LARGE


def reload_suite(folder: Path, servers: dict[str, str], more: str = "") -> Path:
    """Write a suite of servers that replace their worker with these options."""
    script, suite = TESTS / "servers" / "reloads.py", folder / "suite.toml"
    tables = (
        f"[servers.{name}]\ncommand = '{sys.executable} {script} {{port}} {words}'\n{more}\n"
        for name, words in servers.items()
    )
    suite.write_text('[ping]\npath = "/ping"\n' + "".join(tables))
    return suite


@pytest.fixture(scope="module")
def reloaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FaultOutcome]:
    folder = tmp_path_factory.mktemp("reloaded")
    servers = {"clean": "", "loses": "--lose 3", "leaves": "--away 2", "holds": "--hold 60"}
    found = run_drill(folder, reload_suite(folder, servers), "reload")
    return {server: outcome for (server, fault), outcome in found.items() if fault == "reload"}


def test_a_reload_tells_how_many_requests_were_lost(reloaded: dict[str, FaultOutcome]) -> None:
    assert [reloaded[name].figures["lost"] for name in ("clean", "loses", "holds")] == [0, 3, 0]
    assert reloaded["loses"].mark == HURT


def test_a_reload_tells_how_long_nobody_answered(reloaded: dict[str, FaultOutcome]) -> None:
    figures = reloaded["leaves"].figures
    assert figures["gap_s"] >= 2
    assert figures["lost"] > 0
    assert figures["new_s"] >= 2
    assert reloaded["leaves"].mark == HURT


def test_a_reload_tells_how_much_memory_it_needs_at_most(reloaded: dict[str, FaultOutcome]) -> None:
    added = {name: one.figures["memory_bytes"] - one.figures["memory_before_bytes"] for name, one in reloaded.items()}
    assert added["holds"] > 50_000_000 > added["clean"]


def test_a_reload_tells_when_new_processes_answer(reloaded: dict[str, FaultOutcome]) -> None:
    """Let the old worker end after the new one began to serve."""
    for outcome in reloaded.values():
        assert outcome.figures["new_s"] is not None
        assert outcome.figures["old_s"] is not None


def test_the_command_of_a_suite_reloads_a_server(tmp_path: Path) -> None:
    found = run_drill(tmp_path, reload_suite(tmp_path, {"one": "--lose 2"}, "reload = 'kill -HUP {pid}'"), "reload")
    assert found["one", "reload"].figures["lost"] == 2


def test_a_server_that_sighup_would_end_is_not_reloaded(tmp_path: Path) -> None:
    found = run_drill(tmp_path, write_suite(tmp_path, "/slow/0.05"), "reload")
    assert found["scripted", "reload"].without == injection.NO_RELOAD


def test_a_server_that_ignores_its_reload_has_no_new_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload_injection, "RELOAD_LIMIT_S", 1.0)
    found = run_drill(tmp_path, reload_suite(tmp_path, {"one": ""}, "reload = 'true'"), "reload")
    assert found["one", "reload"].figures["new_s"] is None
    assert found["one", "reload"].mark == HURT


ONE_AT_A_TIME = """
import sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(0.01 * (self.path != "/ping"))
        self.send_response(200)
        self.send_header("Content-Length", "8")
        self.end_headers()
        self.wfile.write(b"a report")
    def log_message(self, *_): pass

class Server(HTTPServer):
    request_queue_size = 128

Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    folder = tmp_path_factory.mktemp("stuck")
    suite = Path(shutil.copytree(TESTS / "suites" / "two_pools", folder / "suite")) / "suite.toml"
    (suite.parent / "one.py").write_text(ONE_AT_A_TIME)
    suite.write_text(f'{suite.read_text()}\n[servers.one_at_a_time]\ncommand = "{sys.executable} one.py {{port}}"\n')
    return run_drill(folder, suite, "worker", "silent")


def test_silent_connections_stop_a_server_that_waits_for_them(stuck: Outcomes) -> None:
    (incident,) = stuck["one_at_a_time", "silent"].incidents
    assert last_answer_s(incident) < incident.ended_s - 1


def test_a_server_with_one_of_two_pools_broken_is_not_reported_as_recovered(stuck: Outcomes) -> None:
    broken = stuck["two_pools", "worker"]
    assert broken.mark in (HIDDEN, DEAD)
    assert broken.figures["whole_s"] is None
    assert WRONG in broken.incidents[0].requests.only(LOAD).outcome
    assert stuck["two_pools", CONTROL].incidents[0].has_recovered
    assert stuck["one_at_a_time", "worker"].without == injection.ONLY_ONE
