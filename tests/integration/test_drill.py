"""The drill: judge simulated incidents, and inject faults into real servers."""

import asyncio
import contextlib
import copy
import dataclasses
import itertools
import json
import math
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import LIMIT_S, ROOT, TESTS
from simulated_record import result_of

from under_siege.drill import drill_run, fault_context, job_faults
from under_siege.drill.drill_report import cell_lines, conclusion
from under_siege.drill.drill_run import chains, drill_plan, selected
from under_siege.drill.fault import CONTROL, DEAD, HIDDEN, HURT, OK
from under_siege.drill.fault_outcomes import FAULTS, FaultOutcome, exit_code, fault_outcomes, figures_of
from under_siege.drill.users import Users
from under_siege.load.http_client import client
from under_siege.record.record import (
    CaseFailedError,
    Failure,
    Incident,
    Pings,
    Recovery,
    Requests,
    Result,
    SkippedServer,
    load,
    save,
)
from under_siege.result_output import Report
from under_siege.show.progress_bar import ProgressBar
from under_siege.suite.expectation import Expectation
from under_siege.suite.selection import suite_of

RunCli = Callable[..., subprocess.CompletedProcess[str]]
RATE = 40.0  # responses per second


def incident(
    fault: str = "worker", *, gap_s: float = 0.0, gone: int = 0, ping_s: float = 0.002, server: str = "4_pool", **seen
) -> Incident:
    """Simulate load for 6 s with a fault at 1 s, after which no response arrives for `gap_s` and `gone` requests fail.

    Each ping due after the fault waits `ping_s` for its response.
    """
    times = [number / RATE for number in range(int(6 * RATE))]
    right = [at_s for at_s in times if not 1.0 <= at_s < 1.0 + gap_s]
    wrong = [1.0 + number / 1000 for number in range(gone)]
    ended = sorted([(at_s, "") for at_s in right] + [(at_s, "lost") for at_s in wrong])
    due_s = [number / 40 for number in range(240)]
    waited_s = [ping_s if due >= 1.0 else 0.002 for due in due_s]
    problem = ["not answered" if wait == math.inf else "" for wait in waited_s]
    return Incident(
        server=server,
        title="In a pool",
        values={"task": "t", "users": 8, "python": "3.11.7"},
        fault=fault,
        round=1,
        workers=2,
        requests=Requests(
            [at_s - 0.1 for at_s, _ in ended], [at_s for at_s, _ in ended], [outcome for _, outcome in ended]
        ),
        pings=Pings(due_s, due_s, [min(wait, 1.0) for wait in waited_s], problem),
        fault_at_s=1.0,
        ended_s=6.0,
        seen=seen,
    )


def result(*found: Incident) -> Result:
    one = result_of([])
    one.incidents.extend(found)
    return one


class FakeServer:
    """A server that recovers from every fault except slow connections."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.is_gone = False

    def context(self, incident: Incident) -> Incident:
        self.seen.append(incident.fault)
        return incident

    async def has_recovered(self, context: Incident) -> bool:
        return context.fault != "slow"


def outcomes(*incidents: Incident) -> list[FaultOutcome]:
    return fault_outcomes(incidents)


def mark(one: Incident) -> str:
    (cell,) = outcomes(one)
    return cell.mark


@pytest.mark.parametrize("gap_s", [0.0, 0.3, 1.0, 3.0])
def test_the_recovery_time_ends_when_the_request_rate_is_back_at_80_percent(gap_s: float) -> None:
    figures = figures_of(incident(gap_s=gap_s))
    assert figures["before_per_s"] == pytest.approx(RATE, rel=0.05)
    assert figures["whole_s"] == pytest.approx(
        max(0.0, gap_s - 0.1), abs=0.11
    )  # a window of 0.5 s with 80 % of the rate counts as recovered


def test_a_server_whose_request_rate_stays_low_has_no_recovery_time() -> None:
    assert figures_of(incident(gap_s=5.0))["whole_s"] is None


def checked(one: Incident, outcomes: list[str], processes: Sequence[str] = ("1", "2")) -> Incident:
    """Add a recovery check with these outcomes, in which these processes take turns to answer."""
    times = [7.0 + number / 100 for number in range(len(outcomes))]
    turns = [processes[number % len(processes)] for number in range(len(outcomes))]
    one.recovery = Recovery(times, [at_s + 0.005 for at_s in times], outcomes, turns)
    one.recovery_answers, one.recovery_processes = 20, 2
    return one


def failing_until(last_s: float) -> Incident:
    """Return an incident in which an additional request fails every 0.1 s from the fault until `last_s`."""
    one = incident()
    times = [1.0 + number / 10 for number in range(round((last_s - 1.0) * 10) + 1)]
    one.requests.sent_s.extend(times)
    one.requests.ended_s.extend(times)
    one.requests.outcome.extend(["wrong"] * len(times))
    return one


def test_the_recovery_time_does_not_end_before_the_last_failed_request() -> None:
    assert figures_of(failing_until(3.0))["whole_s"] == pytest.approx(2.0, abs=0.03)
    assert figures_of(failing_until(5.9))["whole_s"] is None


@pytest.mark.parametrize(
    ("outcomes", "processes", "has_recovered"),
    [
        ([""] * 20, ["1", "2"], True),
        (["refused", *[""] * 20], ["1", "2"], True),
        ([""] * 19, ["1", "2"], False),
        ([*[""] * 19, "refused", ""], ["1", "2"], False),
        ([*[""] * 30, "wrong", *[""] * 30], ["1", "2"], False),
        ([*[""] * 30, "lost"], ["1", "2"], False),
        ([""] * 40, ["1"], False),
        ([""] * 40, [""], False),
    ],
)
def test_a_server_has_recovered_only_if_it_passes_the_recovery_check(
    outcomes: list[str], processes: list[str], has_recovered: bool, tmp_path: Path
) -> None:
    """Save and load the incident, because a report has only the saved raw values."""
    save(result(checked(incident(), outcomes, processes)), tmp_path / "d.json")
    (one,) = load(tmp_path / "d.json").incidents
    assert one.has_recovered == has_recovered
    assert (figures_of(one)["whole_s"] is not None) == has_recovered
    assert mark(one) == (OK if has_recovered else HIDDEN)


def test_a_server_that_does_not_recover_from_overload_is_marked_as_dead() -> None:
    overload = MARKS["overload, requests refused"][0]
    assert mark(checked(copy.deepcopy(overload), [""] * 20)) == OK
    assert mark(checked(copy.deepcopy(overload), ["wrong"] * 20)) == DEAD


def test_a_server_that_does_not_recover_from_slow_connections_is_marked_as_degraded() -> None:
    slow = MARKS["slow connections, server responds"][0]
    assert mark(checked(copy.deepcopy(slow), ["wrong"] * 20)) == HURT


@pytest.mark.parametrize("when", ["under load", "afterwards"])
def test_a_server_with_failed_requests_in_the_control_is_marked_as_failed(when: str) -> None:
    control = checked(incident(CONTROL), [""] * 20) if when == "under load" else checked(incident(CONTROL), ["wrong"])
    if when == "under load":
        control.requests.outcome[-3:] = ["wrong", "lost", "wrong"]
    healthy = incident("slow", left=0.9, from_s=1.0, server="9_pebble")
    drill = result(control, incident("worker"), incident(CONTROL, server="9_pebble"), healthy)
    cells = fault_outcomes(drill.incidents)
    assert [cell_lines(one)[0] for one in cells[:2]] == ["failed", "failed"]
    assert cells[3].mark == OK
    sentences = list(conclusion(cells))
    failed = "3 of 260" if when == "under load" else "1 of 241"
    assert f"Not judged: 4_pool: {failed} requests failed in the control, before any fault." in sentences
    assert not [one for one in sentences if one.startswith("Could not be measured")]
    assert exit_code(drill) == 1


class FakeUsers:
    """Clients whose requests have the given outcomes, and are answered by the given processes in turn."""

    def __init__(self, outcomes: Iterator[str], processes: list[str]) -> None:
        self._outcomes, self._processes = outcomes, itertools.cycle(processes)

    async def send_check(self, recovery: Recovery, _began_s: float) -> None:
        recovery.sent_s.append(0.0)
        recovery.ended_s.append(0.0)
        recovery.outcome.append(next(self._outcomes))
        recovery.process.append(next(self._processes))
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("first", "processes", "listening", "has_recovered", "sent"),
    [
        ([], ["1", "2"], 1, True, 20),
        ([], ["1", "2"], 3, True, 20),
        ([], [""], 3, True, 60),
        (["refused"], ["1", "2"], 1, True, 24),
        (["", "", "wrong"], ["1", "2"], 1, False, 4),
        ([], ["1"], 1, False, None),
    ],
)
def test_the_recovery_check_needs_responses_from_every_process_and_ends_at_a_wrong_response(
    first: list[str],
    processes: list[str],
    listening: int,
    has_recovered: bool,
    sent: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fault_context, "RECOVERY_LIMIT_S", 0.2)
    users = FakeUsers(itertools.chain(first, itertools.repeat("")), processes)
    server, warm = SimpleNamespace(listening_processes=lambda: listening), SimpleNamespace(idle_answer_s=0.0)
    one, on = (
        incident(),
        fault_context.ServerFixture(server, None, users, None, warm, processes=2 if any(processes) else 0),
    )
    assert asyncio.run(on.passes_check(SimpleNamespace(incident=one, began_s=0.0))) == has_recovered
    assert one.has_recovered == has_recovered
    assert sent is None or len(one.recovery.outcome) == sent


def test_a_drill_result_without_recovery_checks_can_be_loaded(tmp_path: Path) -> None:
    drill = json.loads((ROOT / "results" / "drill.json").read_text())
    for saved in drill["incidents"]:
        for field in ("recovery", "recovery_answers", "recovery_processes"):
            del saved[field]
    old_file = tmp_path / "drill.json"
    old_file.write_text(json.dumps(drill))

    incidents = load(old_file).incidents
    assert {incident.has_recovered for incident in incidents} == {None}
    assert not [outcome.failure for outcome in fault_outcomes(incidents) if outcome.failure]


MARKS = {
    "no request lost": (incident(), OK),
    "one request lost": (incident(gone=1, gap_s=0.2), OK),
    "many requests lost": (incident(gone=8), HURT),
    "recovered after two seconds": (incident(gap_s=2.5), HURT),
    "not recovered, pings answered": (incident(gap_s=5.0), HIDDEN),
    "not recovered, pings unanswered": (incident(gap_s=5.0, ping_s=math.inf), DEAD),
    "graceful shutdown": (incident("stop", begun=2, begun_lost=0, exit=0, exit_s=0.5), OK),
    "request lost at shutdown": (incident("stop", begun=2, begun_lost=1, exit=0, exit_s=0.5), HURT),
    "shutdown ended by an alarm": (incident("stop", begun=2, begun_lost=0, exit=-14, exit_s=0.5), HURT),
    "never shut down": (incident("stop", begun=2, begun_lost=0, exit_s=15.0), DEAD),
    "long request dropped in time": (incident("stop_long", begun=2, begun_lost=2, exit=0, exit_s=5.0), OK),
    "long request dropped late": (incident("stop_long", begun=2, begun_lost=2, exit=0, exit_s=9.0), HURT),
    "never shut down because of a long request": (incident("stop_long", begun=2, begun_lost=2, exit_s=15.0), DEAD),
    "cancelled requests not computed": (
        incident("leave", cpu_s=0.2, asked_cpu_s=2.5, task_s=0.1, next_s=0.2, begun=2),
        OK,
    ),
    "cancelled requests computed": (
        incident("leave", cpu_s=2.4, asked_cpu_s=2.5, task_s=0.1, next_s=0.2, begun=25),
        HURT,
    ),
    "next request waits for cancelled ones": (
        incident("leave", cpu_s=0.2, asked_cpu_s=2.5, task_s=0.1, next_s=2.0),
        HURT,
    ),
    "next request never answered": (incident("leave", cpu_s=0.2, asked_cpu_s=2.5, task_s=0.1, next_s=-1.0), DEAD),
    "overload, requests refused": (
        incident("overload", answered=10, refused=70, lost=0, late=0, wrong=0, done_s=4.0, quick_s=0.1),
        OK,
    ),
    "overload, requests lost": (
        incident("overload", answered=70, refused=0, lost=10, late=0, wrong=0, done_s=4.0, quick_s=0.1),
        HURT,
    ),
    "overload, slow from then on": (
        incident("overload", answered=80, refused=0, lost=0, late=0, wrong=0, done_s=4.0, quick_s=-1.0),
        DEAD,
    ),
    "endless task, server responds": (incident("endless", left=0.5, from_s=1.0), OK),
    "endless task, only pings answered": (incident("endless", left=0.0, from_s=1.0), HIDDEN),
    "endless task blocks pings": (incident("endless", ping_s=math.inf, left=0.0, from_s=1.0), DEAD),
    "slow connections, server responds": (incident("slow", left=0.9, from_s=1.0), OK),
    "slow connections, no response": (incident("slow", ping_s=math.inf, left=0.0, from_s=1.0), DEAD),
    "all jobs answered": (
        incident("jobs_broker", accepted=40, answered=40, failed=0, lost=0, last_s=2.0, takes_new=1),
        OK,
    ),
    "some jobs lost": (
        incident("jobs_server", accepted=40, answered=38, failed=0, lost=2, last_s=2.0, takes_new=1),
        HURT,
    ),
    "no new jobs accepted": (
        incident("jobs_broker", accepted=40, answered=40, failed=0, lost=0, last_s=2.0, takes_new=0),
        DEAD,
    ),
    "control": (incident(CONTROL), ""),
}


@pytest.mark.parametrize("name", MARKS)
def test_each_reaction_of_a_server_to_a_fault_gets_the_expected_mark(name: str) -> None:
    one, expected = MARKS[name]
    assert mark(one) == expected


def test_the_median_recovery_time_treats_never_as_longer_than_any_time() -> None:
    rounds = [incident(gap_s=gap_s) for gap_s in (0.5, 5.0, 5.0)]
    (cell,) = outcomes(*rounds)
    assert cell.figures["whole_s"] is None
    (cell,) = outcomes(incident(gap_s=0.5), incident(gap_s=0.5), incident(gap_s=5.0))
    assert cell.figures["whole_s"] == pytest.approx(0.4, abs=0.11)


def test_faults_that_do_not_apply_and_faults_that_fail_to_run_get_different_marks() -> None:
    never, failed = incident(server="2_async"), incident(server="9_pebble")
    never.without, failed.failure = "it works in its only process", Failure("died", "it <b>died</b>")
    cells = outcomes(never, failed)
    assert [cell_lines(one)[0] for one in cells] == ["–", "failed"]  # noqa: RUF001
    assert any("Could not be measured: 9_pebble" in sentence for sentence in conclusion(cells))
    assert next(conclusion(cells)) == "No server is known to survive every fault."
    assert exit_code(result(never)) == 0
    assert exit_code(result(failed)) == 1
    lacking = result(never)
    lacking.left_out.append(SkippedServer("7_interpreters", "In interpreters", "3.11.7", "needs Python 3.14 or later"))
    for dress in ("table", "markdown", "html"):
        assert ": needs Python 3.14 or later" in " ".join(Report(lacking).formatted(dress).split())


def test_the_conclusion_about_one_fault_groups_the_servers_by_mark() -> None:
    fine, lossy, dead = incident(server="fine"), incident(gone=8, server="lossy"), incident(gap_s=5.0, server="dead")
    assert next(conclusion(outcomes(fine, lossy, dead))) == "worker killed: fine is not degraded; lossy is degraded."
    assert next(conclusion(outcomes(dead))) == "worker killed: every tested server is dead."
    slow = incident("slow", left=0.9, from_s=1.0, server="fine")
    assert next(conclusion(outcomes(fine, slow))) == "fine survives every fault."


def test_a_dead_server_without_pings_is_not_reported_as_detectable_by_a_health_check() -> None:
    never = incident("slow", left=0.0, from_s=1.0, server="shop")
    never.pings = Pings([], [], [], [])
    cells = outcomes(never, incident("slow", ping_s=math.inf, left=0.0, from_s=1.0))
    assert [(one.mark, cell_lines(one)[1]) for one in cells] == [(DEAD, "no response"), (DEAD, "–")]  # noqa: RUF001
    assert list(conclusion(cells))[1:3] == [
        "Dead, but a health check would detect it: 4_pool (50 slow connections).",
        "Dead: shop (50 slow connections).",
    ]


def test_every_output_format_shows_a_drill_result() -> None:
    drill = result(*(one for one, _ in MARKS.values()))
    hidden = incident(gap_s=5.0, server="<b>shop</b>")
    drill.incidents.append(hidden)
    assert "never" in Report(drill).formatted("table")
    assert "✗!" in Report(drill).formatted("markdown")
    cells = json.loads(Report(drill).formatted("json"))["cells"]
    assert {"server", "fault", "figures", "mark"} <= cells[0].keys()
    assert "worker,whole_s" in Report(drill).formatted("csv")
    page = Report(drill).formatted("html")
    assert "<b>shop</b>" not in page
    assert "&lt;b&gt;shop&lt;/b&gt;" in page
    assert page.count("<figure>") == len({one.fault for one in drill.incidents})


def names_of(options: list[str]) -> list[str]:
    return [fault.name for fault in selected(options)]


def test_selecting_a_fault_also_selects_the_control_and_related_faults() -> None:
    assert names_of([]) == list(FAULTS)
    assert names_of(["worker"]) == [CONTROL, "worker", "jobs_worker"]
    assert names_of(["broker"]) == [CONTROL, "jobs_broker", "jobs_broker_disk"]
    assert names_of(["stop"]) == [CONTROL, "stop", "stop_long"]


def test_every_server_gets_every_fault_and_repeated_faults_occur_in_every_round() -> None:
    plan, turns = drill_plan(suite_of(["2", "4"]), [], {"python": ["python3"]}, rounds=3, seed=1)
    planned = [(one.server, one.fault, one.round) for chain in chains(plan, selected([])) for _, one in chain]
    assert len(planned) == len(set(planned)) == turns
    assert {fault for server, fault, _ in planned if server == "2_async"} == set(FAULTS)
    assert {round_ for _, fault, round_ in planned if fault == "worker"} == {1, 2, 3}


def test_a_chain_of_faults_has_one_server_and_only_the_last_fault_may_end_the_server() -> None:
    plan, _ = drill_plan(suite_of(["2", "4"]), [], {"python": ["python3"]}, rounds=3, seed=1)
    for chain in chains(plan, selected([])):
        assert len({case for case, _ in chain}) == 1
        names = [one.fault for _, one in chain]
        ends = [name in {"stop", "stop_long", "endless"} for name in names]
        is_separate = set(names) & {"jobs_server", "jobs_server_apart", "jobs_broker", "jobs_broker_disk"}
        assert ends == [False] * (len(chain) - 1) + [not is_separate]
        assert len(names) == 1 or not is_separate
    only, _ = drill_plan(suite_of(["2"]), ["slow"], {"python": ["python3"]}, rounds=1, seed=1)
    assert [len(chain) for chain in chains(only, selected(["slow"]))] == [2]


def test_the_control_precedes_all_faults_of_the_same_chain() -> None:
    plan, _ = drill_plan(suite_of(["2", "4"]), [], {"python": ["python3"]}, rounds=3, seed=1)
    positions = [
        [one.fault for _, one in chain].index(CONTROL)
        for chain in chains(plan, selected([]))
        if CONTROL in [one.fault for _, one in chain]
    ]
    assert positions == [0, 0]


def test_a_server_that_does_not_recover_is_replaced_for_the_next_fault_and_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers: list[FakeServer] = []

    @contextlib.asynccontextmanager
    async def fake_server(*_: object, **__: object) -> AsyncIterator[FakeServer]:
        servers.append(FakeServer())
        yield servers[-1]
        servers[-1].is_gone = True

    async def happens(context: Incident) -> None:
        if context.fault == "overload":
            raise CaseFailedError("died", "it died")

    monkeypatch.setattr(drill_run, "warm_server", fake_server)
    fakes = {name: dataclasses.replace(fault, inject=happens) for name, fault in FAULTS.items()}
    monkeypatch.setattr(drill_run, "FAULTS", fakes)
    plan, _ = drill_plan(suite_of(["2"]), [], {"python": ["python3"]}, rounds=1, seed=1)
    (case,), kept = plan.cases, []
    names = [CONTROL, "leave", "slow", "overload", "worker", "stop"]
    one = drill_run.Drill(plan, {case.work: Expectation(b"", 0.0, 0.0)}, None, ProgressBar(6, quiet=True), kept.append)
    asyncio.run(one.run_chain([(case, incident(fault)) for fault in names]))
    assert [found.fault for found in kept] == names
    assert [found.left_whole for found in kept] == [True, True, False, None, True, None]
    assert [server.seen for server in servers] == [names[:3], names[3:4], names[4:]]
    assert all(server.is_gone for server in servers)
    kept[2].seen |= {"left": 0.5, "from_s": 1.0}
    assert any(
        "Not recovered in time" in content and "4_pool (50 slow" in content for content in conclusion(outcomes(kept[2]))
    )


def run_drill(folder: Path, run_cli: RunCli, *words: str) -> dict[tuple[str, str], str]:
    ran = run_cli("drill", *words, "--rounds", "1", "--out", str(folder / "d.json"), "--quiet")
    assert ran.returncode in (0, 1), ran.stderr
    found = load(folder / "d.json")
    assert not [one.failure for one in found.incidents if one.failure]
    return {(cell.case.server, cell.fault): cell.mark for cell in fault_outcomes(found.incidents)}


def test_a_server_that_loses_requests_at_shutdown_is_marked_as_degraded(tmp_path: Path, run_cli: RunCli) -> None:
    marks = run_drill(tmp_path, run_cli, str(TESTS / "servers" / "exits_without_shutdown.py"), "--fault", "stop")
    assert marks["exits_without_shutdown", "stop"] == HURT
    (stop,) = [one for one in fault_outcomes(load(tmp_path / "d.json").incidents) if one.fault == "stop"]
    assert stop.figures["begun_lost"] >= 1


@pytest.mark.slow
def test_a_server_with_one_of_two_pools_broken_is_not_reported_as_recovered(tmp_path: Path, run_cli: RunCli) -> None:
    marks = run_drill(tmp_path, run_cli, str(TESTS / "suites" / "two_pools"), "--fault", "worker", "--fault", "slow")
    assert marks["two_pools", "worker"] in (HIDDEN, DEAD)
    found = {one.fault: one for one in fault_outcomes(load(tmp_path / "d.json").incidents)}
    assert found["worker"].figures["whole_s"] is None
    failed = {one.fault: set(one.requests.outcome) - {""} for one in load(tmp_path / "d.json").incidents}
    assert {fault: outcomes for fault, outcomes in failed.items() if outcomes} == {"worker": {"wrong"}}
    assert found[CONTROL].incidents[0].has_recovered


@pytest.mark.parametrize("remembers", [False, True])
def test_the_number_of_jobs_lost_by_a_killed_server_is_reported(
    remembers: bool, tmp_path: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    if remembers:
        monkeypatch.setenv("REMEMBERS", "yes")
    name = "forgets_jobs"
    marks = run_drill(tmp_path, run_cli, str(TESTS / "servers" / f"{name}.py"), "--fault", "server")
    assert marks[name, "jobs_server"] == (OK if remembers else HURT)
    found = {one.fault: one for one in fault_outcomes(load(tmp_path / "d.json").incidents)}
    figures = found["jobs_server"].figures
    assert (figures["accepted"], figures["lost"]) == (40, 0 if remembers else 40)
    assert figures["takes_new"] == 1
    assert found["jobs_server_apart"].without == "it has no broker"


def test_job_faults_do_not_apply_to_servers_without_jobs(tmp_path: Path, run_cli: RunCli) -> None:
    marks = run_drill(tmp_path, run_cli, "5", "--fault", "server", "--fault", "worker")
    assert set(marks.values()) == {""}
    without = [one.without for one in load(tmp_path / "d.json").incidents if one.fault.startswith("jobs_")]
    assert sorted(without) == ["it accepts no jobs", "it accepts no jobs", "it has no broker"]  # the order is random


def test_a_suite_server_gets_only_applicable_faults(tmp_path: Path, run_cli: RunCli, monkeypatch) -> None:
    monkeypatch.setenv("SHOP_WAITS_S", "0.1")
    shop = f"{TESTS / 'suites' / 'shop'}:plain"
    marks = run_drill(tmp_path, run_cli, shop, "--fault", "slow", "--fault", "endless")
    assert {fault for _, fault in marks} == {CONTROL, "slow", "endless"}
    assert marks["plain", "slow"] == OK
    found = fault_outcomes(load(tmp_path / "d.json").incidents)
    assert next(one.without for one in found if one.fault == "endless") == "it does not run the built-in tasks"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"ended_s": 1e300}, "Expected `float` <= 1000000.0 - at `$.incidents[0].ended_s`"),
        ({"seen": {"lost": 1e300}}, "at `$.incidents[0].seen[...]`"),
        ({"requests": {"sent_s": [0.1], "ended_s": [], "outcome": [""]}}, "columns of different lengths"),
        (
            {"requests": {"sent_s": [0.1], "ended_s": [1e300], "outcome": [""]}},
            "at `$.incidents[0].requests.ended_s[0]`",
        ),
    ],
    ids=str,
)
def test_drill_results_with_impossible_values_are_rejected(
    change: dict, why: str, tmp_path: Path, run_cli: RunCli
) -> None:
    save(result(incident()), tmp_path / "d.json")
    content = json.loads((tmp_path / "d.json").read_text())
    content["incidents"][0] |= change
    (tmp_path / "d.json").write_text(json.dumps(content))
    ran = run_cli("report", "d.json")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert why in ran.stderr


def test_drill_results_with_unknown_faults_are_shown_but_those_with_missing_fields_are_rejected(
    tmp_path: Path, run_cli: RunCli
) -> None:
    save(result(incident("stop", begun=2, exit=0)), tmp_path / "lacks.json")
    ran = run_cli("report", "lacks.json")
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    save(result(incident("worker"), incident("of_the_future")), tmp_path / "new.json")
    assert run_cli("report", "new.json").returncode == 0


@pytest.mark.parametrize("how", ["a request", "a job"])
def test_a_fragmented_response_is_read_completely(how: str) -> None:
    whole = b"x" * 1000

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + whole[:1])
        await asyncio.sleep(0.05)  # let the client read the first byte
        writer.write(whole[1:])
        await writer.drain()
        writer.close()

    async def ask() -> str:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server, client() as session:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            users = Users(session, url, Expectation(whole, 0.1, 0.1), LIMIT_S)
            if how == "a request":
                return await users.send()
            return await job_faults._poll(SimpleNamespace(session=session, users=users), url)

    assert asyncio.run(ask()) == ("" if how == "a request" else job_faults._ANSWERED)


def test_the_drill_and_the_report_find_the_same_recovery_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only window that reaches 80 % of the rate starts at 2.003 s, between two polls of the drill."""
    one = incident()
    times = [*(0.3 + number / 10 for number in range(7)), 2.003, 2.1, 2.3, 2.502]
    one.requests = Requests(times, times, [""] * len(times))
    hundredths = itertools.count(100, 2)
    running = fault_context.FaultContext(None, None, None, None, one)
    monkeypatch.setattr(running, "now_s", lambda: next(hundredths) / 100)
    monkeypatch.setattr(fault_context, "LOOK_S", 0.0)
    assert asyncio.run(running.recovers_within(3.0))
    assert figures_of(one)["whole_s"] == pytest.approx(1.003)
