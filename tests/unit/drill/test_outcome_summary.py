"""The drill plans chains of faults, judges simulated incidents, and shows the outcome."""

import asyncio
import contextlib
import copy
import dataclasses
import itertools
import json
import math
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from command import invoke
from formatted import formatted
from plans import session_of
from rows import fail
from simulated_record import result_of

from under_siege.drill import drill_run, loaded_server, recovery_check
from under_siege.drill.drill_run import chains, drill_plan, selected
from under_siege.drill.faults import CONTROL, DEAD, FAULTS, HIDDEN, HURT, OK
from under_siege.drill.outcome_summary import FaultOutcome, fault_outcomes, figures_of
from under_siege.drill.view import cell, conclusion, view
from under_siege.record.record import CaseFailedError, Failure, Incident
from under_siege.record.requests import CHECK, CORRECT, LATE, LOAD, LOST, PING, Outcome, Requests
from under_siege.record.result import Result, SkippedServer, load, save
from under_siege.suite.expected_response import Expectation
from under_siege.suite.selection import suite_of

RATE = 40.0  # responses per second


def incident(
    fault: str = "worker", *, gap_s: float = 0.0, gone: int = 0, ping_s: float = 0.002, server: str = "4_pool", **seen
) -> Incident:
    """Simulate load for 6 s with a fault at 1 s, after which no response arrives for `gap_s` and `gone` requests fail.

    Each ping due after the fault waits `ping_s` for its response.
    """
    requests = Requests()
    times = [number / RATE for number in range(int(6 * RATE))]
    ended = [(at_s, CORRECT) for at_s in times if not 1.0 <= at_s < 1.0 + gap_s]
    ended += [(1.0 + number / 1000, LOST) for number in range(gone)]
    for at_s, outcome in sorted(ended):
        requests.add(LOAD, sent_s=at_s - 0.1, ended_s=at_s, outcome=outcome)
    for due_s in (number / 40 for number in range(240)):
        wait_s = ping_s if due_s >= 1.0 else 0.002
        outcome = LATE if wait_s == math.inf else CORRECT
        requests.add(PING, sent_s=due_s, ended_s=due_s + min(wait_s, 1.0), outcome=outcome)
    return Incident(
        server=server,
        title="In a pool",
        values={"task": "t", "users": 8, "python": "3.11.7"},
        fault=fault,
        round=1,
        workers=2,
        requests=requests,
        fault_at_s=1.0,
        ended_s=6.0,
        seen=seen,
    )


def test_no_fault_is_judged_if_the_tasks_are_too_long_for_a_rate_before_it() -> None:
    """Let no request end before the faults, so that a rate of 0 would look unchanged after them."""
    incidents = [incident(fault) for fault in (CONTROL, "worker", "slow")]
    for one in incidents:
        rows = one.requests
        kept = [index for index, who in enumerate(rows.sender) if who != LOAD or rows.ended_s[index] > 1.5]
        one.requests = rows.rows(kept)
    control, *faults = fault_outcomes(
        [*incidents, incident("leave", next_s=0.1, cpu_s=0.0, asked_cpu_s=1.0, task_s=1.0)]
    )
    assert not control.failure
    assert ["no request was answered before the fault" in outcome.failure for outcome in faults] == [True, False, True]
    assert [bool(outcome.mark) for outcome in faults] == [False, True, False]


def test_pings_that_are_refused_at_once_do_not_look_fast() -> None:
    """Let a server answer two pings after its worker was killed, and refuse all connections from then on."""
    died = incident(gap_s=10.0)
    for number in range(42, 240):
        fail(died.requests, number, LOST, "not connected", 0.0003)
    (outcome,) = fault_outcomes([died])
    assert outcome.figures["ping_p99_s"] is None
    assert outcome.mark == DEAD


@pytest.mark.parametrize(
    ("gap_s", "gone", "new_s", "expected"),
    [(0.0, 0, 0.5, OK), (0.0, 1, 0.5, HURT), (1.5, 0, 0.5, HURT), (0, 0, -1, HURT)],
)
def test_a_reload_must_lose_nothing_answer_all_the_time_and_start_new_processes(
    gap_s: float, gone: int, new_s: float, expected: str
) -> None:
    (outcome,) = outcomes(incident("reload", gap_s=gap_s, gone=gone, new_s=new_s))
    assert outcome.mark == expected
    assert outcome.figures["lost"] == gone
    assert outcome.figures["gap_s"] == pytest.approx(max(gap_s, 1 / RATE), abs=1 / RATE)


def test_a_reload_whose_new_processes_are_unknown_is_not_marked_for_it() -> None:
    memory = {"memory_bytes": 3e7, "memory_before_bytes": 2e7}
    (outcome,) = outcomes(incident("reload", **memory))
    assert outcome.mark == OK
    assert cell(outcome).in_terminal == "0\n25 ms\n? / ?\n30 MB (150 %)"


def result(*found: Incident) -> Result:
    one = result_of([])
    one.incidents.extend(found)
    return one


class FakeServer:
    """A server that recovers from every fault except slow connections."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.is_gone = False

    def __call__(self, incident: Incident) -> SimpleNamespace:
        async def has_recovered() -> bool:
            return incident.fault != "slow"

        self.seen.append(incident.fault)
        return SimpleNamespace(incident=incident, has_recovered=has_recovered)


def outcomes(*incidents: Incident) -> list[FaultOutcome]:
    return fault_outcomes(incidents)


def mark(one: Incident) -> str:
    (outcome,) = outcomes(one)
    return outcome.mark


@pytest.mark.parametrize("gap_s", [0.0, 0.3, 1.0, 3.0])
def test_the_recovery_time_ends_when_the_request_rate_is_back_at_80_percent(gap_s: float) -> None:
    figures = figures_of(incident(gap_s=gap_s))
    assert figures["before_per_s"] == pytest.approx(RATE, rel=0.05)
    # A window of 0.5 s with 80 % of the rate counts as recovered.
    assert figures["whole_s"] == pytest.approx(max(0.0, gap_s - 0.1), abs=0.11)


def test_a_server_whose_request_rate_stays_low_has_no_recovery_time() -> None:
    assert figures_of(incident(gap_s=5.0))["whole_s"] is None


def checked(one: Incident, outcomes: Sequence[Outcome], processes: Sequence[str] = ("1", "2")) -> Incident:
    """Add a recovery check with these outcomes, in which these processes take turns to answer."""
    for number, outcome in enumerate(outcomes):
        at_s = 7.0 + number / 100
        one.requests.add(CHECK, sent_s=at_s, ended_s=at_s + 0.005, outcome=outcome)
        one.processes.append(processes[number % len(processes)])
    one.recovery_answers, one.recovery_processes = 20, 2
    return one


def failing_until(last_s: float) -> Incident:
    """Return an incident in which an additional request fails every 0.1 s from the fault until `last_s`."""
    one = incident()
    times = [1.0 + number / 10 for number in range(round((last_s - 1.0) * 10) + 1)]
    for at_s in times:
        one.requests.add(LOAD, sent_s=at_s, ended_s=at_s, outcome="wrong")
    return one


def test_the_recovery_time_does_not_end_before_the_last_failed_request() -> None:
    assert figures_of(failing_until(3.0))["whole_s"] == pytest.approx(2.0, abs=0.03)
    assert figures_of(failing_until(5.9))["whole_s"] is None


@pytest.mark.parametrize(
    ("outcomes", "processes", "has_recovered"),
    [
        ([CORRECT] * 20, ["1", "2"], True),
        (["refused", *[CORRECT] * 20], ["1", "2"], True),
        ([CORRECT] * 19, ["1", "2"], False),
        ([*[CORRECT] * 19, "refused", CORRECT], ["1", "2"], False),
        ([*[CORRECT] * 30, "wrong", *[CORRECT] * 30], ["1", "2"], False),
        ([*[CORRECT] * 30, "lost"], ["1", "2"], False),
        ([CORRECT] * 40, ["1"], False),
        ([CORRECT] * 40, [""], False),
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
    assert mark(checked(copy.deepcopy(overload), [CORRECT] * 20)) == OK
    assert mark(checked(copy.deepcopy(overload), ["wrong"] * 20)) == DEAD


def test_a_server_that_does_not_recover_from_slow_connections_is_marked_as_degraded() -> None:
    slow = MARKS["slow connections, server responds"][0]
    assert mark(checked(copy.deepcopy(slow), ["wrong"] * 20)) == HURT


@pytest.mark.parametrize("when", ["under load", "afterwards"])
def test_a_server_with_failed_requests_in_the_control_is_marked_as_failed(when: str, golden) -> None:
    control = (
        checked(incident(CONTROL), [CORRECT] * 20) if when == "under load" else checked(incident(CONTROL), ["wrong"])
    )
    if when == "under load":
        for number, outcome in enumerate(("wrong", "lost", "wrong")):
            fail(control.requests, number, outcome, "", sender=LOAD)
    healthy = incident("slow", **FINE, server="9_pebble")
    drill = result(control, incident("worker"), incident(CONTROL, server="9_pebble"), healthy)
    cells = fault_outcomes(drill.incidents)
    assert [cell(one).text for one in cells[:2]] == ["failed", "failed"]
    assert cells[3].mark == OK
    golden(*conclusion(cells))
    assert view(drill).exit_code == 1


class FakeUsers:
    """Clients whose requests have the given outcomes, and are answered by the given processes in turn."""

    def __init__(self, outcomes: Iterator[Outcome], processes: list[str]) -> None:
        self._outcomes, self._processes = outcomes, itertools.cycle(processes)

    async def send_check(self, incident: Incident, _began_s: float) -> None:
        incident.requests.add(CHECK, sent_s=0.0, ended_s=0.0, outcome=next(self._outcomes))
        incident.processes.append(next(self._processes))
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("first", "processes", "listening", "has_recovered", "sent"),
    [
        ([], ["1", "2"], 1, True, 20),
        ([], ["1", "2"], 3, True, 20),
        ([], [""], 3, True, 60),
        (["refused"], ["1", "2"], 1, True, 24),
        ([CORRECT, CORRECT, "wrong"], ["1", "2"], 1, False, 4),
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
    monkeypatch.setattr(recovery_check, "RECOVERY_LIMIT_S", 0.2)
    users = FakeUsers(itertools.chain(first, itertools.repeat(CORRECT)), processes)
    server, warm = SimpleNamespace(listening_processes=lambda: listening), SimpleNamespace(idle_answer_s=0.0)
    one, count = incident(), 2 if any(processes) else 0
    context = loaded_server.FaultContext(server, None, users, None, warm, count, keep_alive=False, incident=one)
    assert asyncio.run(recovery_check.passes_check(context)) == has_recovered
    assert one.has_recovered == has_recovered
    assert sent is None or len(one.processes) == sent


STOP = {"asked": 8, "answered": 2, "begun": 2, "begun_lost": 0, "exit": 0, "exit_s": 0.5}
LONG = {"asked": 8, "answered": 0, "begun": 2, "begun_lost": 2, "exit": 0, "exit_s": 5.0}
LEAVE = {"cpu_s": 0.2, "asked_cpu_s": 2.5, "task_s": 0.1, "next_s": 0.2}
STREAMS = {"on_s": 0.1, "cpu_s": 0.1, "rest_cpu_s": 2.0, "memory_bytes": 0}
OVERLOAD = {"answered": 80, "refused": 0, "lost": 0, "late": 0, "wrong": 0, "done_s": 4.0, "quick_s": 0.1}
JOBS = {"accepted": 40, "answered": 40, "failed": 0, "lost": 0, "last_s": 2.0, "takes_new": 1}
FINE = {"left": 0.5, "from_s": 1.0}
BLOCKED = {"left": 0.0, "from_s": 1.0, "ping_s": math.inf}
MARKS = {
    "no request lost": (incident(), OK),
    "one request lost": (incident(gone=1, gap_s=0.2), OK),
    "many requests lost": (incident(gone=8), HURT),
    "recovered after two seconds": (incident(gap_s=2.5), HURT),
    "not recovered, pings answered": (incident(gap_s=5.0), HIDDEN),
    "not recovered, pings unanswered": (incident(gap_s=5.0, ping_s=math.inf), DEAD),
    "graceful shutdown": (incident("stop", **STOP), OK),
    "request lost at shutdown": (incident("stop", **STOP | {"begun_lost": 1}), HURT),
    "shutdown ended by an alarm": (incident("stop", **STOP | {"exit": -14}), HURT),
    "shutdown that ends with its signal": (incident("stop", **STOP | {"exit": -15}), OK),
    "endless streams cut off in time": (incident("stop_streams", **LONG, ends_in_time=0.0), OK),
    "endless streams cut off late": (incident("stop_streams", **LONG | {"exit_s": 30.0}, ends_in_time=0.0), HURT),
    "short streams cut off": (incident("stop_streams", **LONG, ends_in_time=1.0), HURT),
    "short streams completed": (incident("stop_streams", **STOP, ends_in_time=1.0), OK),
    "slow readers": (incident("readers", memory_bytes=5e7, memory_before_bytes=4e7), OK),
    "slow readers whose responses are kept": (incident("readers", memory_bytes=9e7, memory_before_bytes=4e7), HURT),
    "slow readers that block the others": (
        incident("readers", gap_s=10, memory_bytes=5e7, memory_before_bytes=4e7),
        HIDDEN,
    ),
    "never shut down because of streams": (
        incident("stop_streams", begun=2, begun_lost=2, exit_s=35.0, ends_in_time=0.0),
        DEAD,
    ),
    "never shut down": (incident("stop", begun=2, begun_lost=0, exit_s=15.0), DEAD),
    "long request dropped in time": (incident("stop_long", **LONG), OK),
    "long request dropped late": (incident("stop_long", **LONG | {"exit_s": 9.0}), HURT),
    "never shut down because of a long request": (incident("stop_long", begun=2, begun_lost=2, exit_s=15.0), DEAD),
    "cancelled requests not computed": (incident("leave", **LEAVE, begun=2), OK),
    "cancelled requests computed": (incident("leave", **LEAVE | {"cpu_s": 2.4}, begun=25), HURT),
    "next request waits for cancelled ones": (incident("leave", **LEAVE | {"next_s": 2.0}), HURT),
    "next request never answered": (incident("leave", **LEAVE | {"next_s": -1.0}), DEAD),
    "stream that ends when its client leaves": (incident("leave_streams", **STREAMS), OK),
    "stream that goes on without its client": (incident("leave_streams", **STREAMS | {"on_s": 4.0, "cpu_s": 2}), HURT),
    "streams that never end": (incident("leave_streams", **STREAMS | {"on_s": -1.0, "cpu_s": 30.0}), HURT),
    "overload, requests refused": (incident("overload", **OVERLOAD | {"answered": 10, "refused": 70}), OK),
    "overload, requests lost": (incident("overload", **OVERLOAD | {"answered": 70, "lost": 10}), HURT),
    "overload, slow from then on": (incident("overload", **OVERLOAD | {"quick_s": -1.0}), DEAD),
    "endless task, server responds": (incident("endless", **FINE), OK),
    "endless task, only pings answered": (incident("endless", **FINE | {"left": 0.0}), HIDDEN),
    "endless task blocks pings": (incident("endless", **BLOCKED), DEAD),
    "slow connections, server responds": (incident("slow", **FINE), OK),
    "slow connections, no response": (incident("slow", **BLOCKED), DEAD),
    "all jobs answered": (incident("jobs_worker", **JOBS), OK),
    "some jobs lost": (incident("jobs_server", **JOBS | {"answered": 38, "lost": 2}), HURT),
    "no new jobs accepted": (incident("jobs_worker", **JOBS | {"takes_new": 0}), DEAD),
    "control": (incident(CONTROL), ""),
}


@pytest.mark.parametrize("name", MARKS)
def test_each_reaction_of_a_server_to_a_fault_gets_the_expected_mark(name: str) -> None:
    one, expected = MARKS[name]
    assert mark(one) == expected


def test_the_median_recovery_time_treats_never_as_longer_than_any_time() -> None:
    rounds = [incident(gap_s=gap_s) for gap_s in (0.5, 5.0, 5.0)]
    (outcome,) = outcomes(*rounds)
    assert outcome.figures["whole_s"] is None
    (outcome,) = outcomes(incident(gap_s=0.5), incident(gap_s=0.5), incident(gap_s=5.0))
    assert outcome.figures["whole_s"] == pytest.approx(0.4, abs=0.11)


def test_faults_that_do_not_apply_and_faults_that_fail_to_run_get_different_marks(golden) -> None:
    never, failed = incident(server="2_async"), incident(server="9_pebble")
    never.without, failed.failure = "it works in its only process", Failure("died", "it <b>died</b>")
    cells = outcomes(never, failed)
    assert [cell(one).text for one in cells] == ["–", "failed"]  # noqa: RUF001
    assert [view(result(one)).exit_code for one in (never, failed)] == [0, 1]
    lacking = [SkippedServer("7_interpreters", "In interpreters", "3.11.7", "needs Python 3.14 or later")]
    golden(*conclusion(cells), *conclusion(cells[:1], lacking))


def test_the_conclusion_about_one_fault_groups_the_servers_by_mark(golden) -> None:
    fine, lossy, dead = incident(server="fine"), incident(gone=8, server="lossy"), incident(gap_s=5.0, server="dead")
    slow = incident("slow", **FINE, server="fine")
    golden(*(next(conclusion(outcomes(*group))) for group in ((fine, lossy, dead), (dead,), (fine, slow))))


@pytest.mark.parametrize(("axis", "label"), [("workers", "with 4 workers"), ("cpus", "(4 CPUs)")])
def test_cases_of_one_server_have_different_names(axis: str, label: str) -> None:
    dead, fine = incident(gap_s=5.0), incident()
    dead.values[axis], fine.values[axis] = 2, 4
    drill = view(result(dead, fine))
    assert drill.headline[0].text == f"worker killed: 4_pool {label} is not degraded."
    assert len(drill.tables[0].rows) == 2
    assert len({row["row"] for row in drill.figures[0].chart()["data"]["values"]}) == 2


def test_a_dead_server_without_pings_is_not_reported_as_detectable_by_a_health_check(golden) -> None:
    never = incident("slow", left=0.0, from_s=1.0, server="shop")
    never.requests = never.requests.only(LOAD)
    cells = outcomes(never, incident("slow", **BLOCKED))
    assert [(one.mark, cell(one).below) for one in cells] == [(DEAD, "no response"), (DEAD, "–")]  # noqa: RUF001
    golden(*conclusion(cells))


def test_every_output_format_shows_a_drill_result(golden, undrawn: None) -> None:
    drill = result(*(one for one, _ in MARKS.values()), incident(gap_s=5.0, server="<b>shop</b>"))
    golden(formatted(drill, "table"))
    assert "✗!" in formatted(drill, "markdown")
    cells = json.loads(formatted(drill, "json"))["cells"]
    assert {"server", "fault", "figures", "mark"} <= cells[0].keys()
    assert "worker,whole_s" in formatted(drill, "csv")
    page = formatted(drill, "html")
    assert "<b>shop</b>" not in page
    assert "&lt;b&gt;shop&lt;/b&gt;" in page
    assert page.count("<figure>") == len({one.fault for one in drill.incidents})


def test_csv_tells_the_releases_of_a_server_apart() -> None:
    found = [incident(server="shop"), incident(server="shop")]
    for one, release in zip(found, ("0.50", "0.51"), strict=True):
        one.values["release"] = release
    lines = formatted(result(*found), "csv").splitlines()[1:]
    assert {line.partition(",")[0] for line in lines} == {"shop with release 0.50", "shop with release 0.51"}


def names_of(options: list[str]) -> list[str]:
    return [fault.name for fault in selected(options)]


def test_selecting_a_fault_also_selects_the_control_and_related_faults() -> None:
    assert names_of([]) == list(FAULTS)
    assert names_of(["worker"]) == [CONTROL, "worker", "jobs_worker"]
    assert names_of(["server"]) == [CONTROL, "jobs_server"]
    assert names_of(["stop"]) == [CONTROL, "stop", "stop_long", "stop_streams"]


def test_every_server_gets_every_fault_and_repeated_faults_occur_in_every_round() -> None:
    plan, turns = drill_plan(suite_of(["2", "4"]), [], {"python": [sys.executable]}, rounds=3, seed=1)
    planned = [(one.server, one.fault, one.round) for chain in chains(plan, selected([])) for _, one in chain]
    assert len(planned) == len(set(planned)) == turns
    assert {fault for server, fault, _ in planned if server == "2_async"} == set(FAULTS)
    assert {round_ for _, fault, round_ in planned if fault == "worker"} == {1, 2, 3}


def test_a_chain_of_faults_has_one_server_begins_with_the_control_and_ends_with_the_end_of_the_server() -> None:
    plan, _ = drill_plan(suite_of(["2", "4"]), [], {"python": [sys.executable]}, rounds=3, seed=1)
    for chain in chains(plan, selected([])):
        assert len({case for case, _ in chain}) == 1
        names = [one.fault for _, one in chain]
        ends = [name in {"stop", "stop_long", "stop_streams", "endless", "jobs_server"} for name in names]
        assert ends == [False] * (len(chain) - 1) + [True]
        assert CONTROL not in names[1:]
    only, _ = drill_plan(suite_of(["2"]), ["slow"], {"python": [sys.executable]}, rounds=1, seed=1)
    assert [len(chain) for chain in chains(only, selected(["slow"]))] == [2]


def test_a_server_that_does_not_recover_is_replaced_for_the_next_fault_and_reported(
    monkeypatch: pytest.MonkeyPatch, golden
) -> None:
    servers: list[FakeServer] = []

    @contextlib.asynccontextmanager
    async def fake_server(*_: object, **__: object) -> AsyncIterator[FakeServer]:
        servers.append(FakeServer())
        yield servers[-1]
        servers[-1].is_gone = True

    async def happens(context: SimpleNamespace) -> None:
        if context.incident.fault == "overload":
            raise CaseFailedError("died", "it died")

    monkeypatch.setattr(drill_run, "warm_server", fake_server)
    monkeypatch.setattr(drill_run, "has_recovered", lambda context: context.has_recovered())
    fakes = {name: dataclasses.replace(fault, inject=happens) for name, fault in FAULTS.items()}
    monkeypatch.setattr(drill_run, "FAULTS", fakes)
    plan, _ = drill_plan(suite_of(["2"]), [], {"python": [sys.executable]}, rounds=1, seed=1)
    (case,), kept = plan.cases, []
    names = [CONTROL, "leave", "slow", "overload", "worker", "stop"]
    one = drill_run.Drill(session_of(plan, kept.append, {case.work: Expectation(b"", 0.0, 0.0)}))
    asyncio.run(one.run_chain([(case, incident(fault)) for fault in names]))
    assert [found.fault for found in kept] == names
    assert [found.left_whole for found in kept] == [True, True, False, None, True, None]
    assert [server.seen for server in servers] == [names[:3], names[3:4], names[4:]]
    assert all(server.is_gone for server in servers)
    kept[2].seen |= FINE
    golden(*conclusion(outcomes(kept[2])))


def test_drill_results_with_missing_figures_cause_a_one_line_error(tmp_path: Path) -> None:
    save(result(incident("stop", begun=2, exit=0)), tmp_path / "lacks.json")
    ran = invoke("report", "lacks.json", folder=tmp_path)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)


def test_the_drill_and_the_report_find_the_same_recovery_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """The only window that reaches 80 % of the rate starts at 2.003 s, between two polls of the drill."""
    one = incident()
    times = [*(0.3 + number / 10 for number in range(7)), 2.003, 2.1, 2.3, 2.502]
    one.requests = Requests()
    for at_s in times:
        one.requests.add(LOAD, sent_s=at_s, ended_s=at_s, outcome=CORRECT)
    hundredths = itertools.count(100, 2)
    running = loaded_server.FaultContext(None, None, None, None, None, 0, keep_alive=False, incident=one)
    monkeypatch.setattr(running, "now_s", lambda: next(hundredths) / 100)
    monkeypatch.setattr(loaded_server, "LOOK_S", 0.0)
    assert asyncio.run(running.recovers_within(3.0))
    assert figures_of(one)["whole_s"] == pytest.approx(1.003)
