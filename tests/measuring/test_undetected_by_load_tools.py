"""The bench detects server faults that load tools miss, no matter which load tool it uses."""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import LIMIT_S, SUPPORT, TESTS, thorough
from fake_load import SilentWatcher
from load_tool_checks import TOOLS, needed, skip_version_lookup, totals_of
from plans import plan_of
from simulated_bursts import burst_record_of
from simulated_record import result_of

from common.errors import BadInputError
from under_siege.host import ports
from under_siege.judge.ranking import summarize
from under_siege.judge.summary import Summary
from under_siege.load import DRIVERS
from under_siege.load.request import Load
from under_siege.measure.session import run_plan
from under_siege.record.record import Record
from under_siege.record.result import Result, load

SERVERS = TESTS / "servers"
EXPECTED = {
    "all_404": ("failed", "no_transactions"),
    "half_500": ("suspect", "availability"),
    "wrong_of_the_same_length": ("failed", "wrong_answer"),
    "first_cut_short": ("failed", "wrong_answer"),
    "empty_under_load": ("failed", "wrong_answer"),
}
BLIND = {("stressor", "empty_under_load")}  # stressor does not report the lengths of bodies
# The bench itself detects the first two faults, and recorded tool output covers the third. Therefore, two load tools
# are enough for these: one that reports single responses and one that reports totals.
TOOL_INDEPENDENT, REPRESENTATIVE_TOOLS = {"wrong_of_the_same_length", "first_cut_short", "all_404"}, ("siege", "ab")


def measured(
    folder: Path,
    scripts: list[Path],
    load_: Load,
    users: int = 4,
    watcher: SilentWatcher | None = None,
    task: str = "short",
) -> tuple[Result, dict[str, Summary]]:
    """Run all scripts under this load, without a ceiling."""
    plan = plan_of(*scripts, task=f"sample_tasks:{task}", users=users)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", f"{SUPPORT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        skip_version_lookup(patched)
        result, _, _ = run_plan(
            replace(plan, load=load_, ceilings=()), folder / "r.json", watcher or SilentWatcher(), ["bench.py"]
        )
    assert load(folder / "r.json") == result
    return result, {case.server: case for case in summarize(result).cases}


class WarningRecorder(SilentWatcher):
    """A watcher that records the warnings of a run."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        self.warnings.append(message)


def test_a_private_network_has_separate_local_ports(tmp_path) -> None:
    """Also check that the load tool sends the given number of requests from this network."""
    needed("ab")
    script = SERVERS / "tools" / "on_waitress.py"
    before, heard = Path("/proc/thread-self/ns/net").readlink(), WarningRecorder()
    load_ = Load(tool="ab", time_s=LIMIT_S, requests=200, keep_alive=True, own_network=True)
    result, cases = measured(tmp_path, [script], load_, watcher=heard)
    assert Path("/proc/thread-self/ns/net").readlink() == before
    sent_are_200(result, cases)
    (record,) = result.records
    assert not [pings for pings in record.pings.problem if pings]
    if any("own_network is not allowed" in warning for warning in heard.warnings):
        pytest.skip("a network namespace is not allowed here; the run continued without one")
    assert record.ports.taken[0] < 50


def sent_are_200(result: Result, cases: dict[str, Summary]) -> None:
    (record,) = result.records
    assert record.failure is None
    assert cases["on_waitress"].transactions == 200
    assert 0 < record.load_s < 30
    assert cases["on_waitress"].rate_per_s is not None


def descriptors() -> set[str]:
    """Return the open file descriptors of this process, including that of the listing itself."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_a_run_without_permission_for_a_private_network_continues_with_one_warning(monkeypatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(ports, "_call", forbidden)
    heard, before = WarningRecorder(), descriptors()
    with ports.own_network(heard.warn) as is_own:
        assert not is_own
    assert descriptors() == before
    (warning,) = heard.warnings
    assert "own_network is not allowed here (Operation not permitted); the run continues without it" in warning


def record_of(result: Result, server: str) -> Record:
    return next(record for record in result.records if record.server == server)


@pytest.mark.parametrize("tool", thorough([tool for tool in DRIVERS if tool != "jobs"], quick=("siege", "wrk")))
def test_every_fault_of_a_trap_server_is_detected_with_every_load_tool(tool: str, tmp_path) -> None:
    """Use an I/O-bound task to save CPU time."""
    needed(tool)
    traps = sorted((SERVERS / "traps").glob("*.py"))
    assert {path.stem for path in traps} == set(EXPECTED)
    left_out = {name for blind, name in BLIND if blind == tool} | (
        TOOL_INDEPENDENT if tool not in REPRESENTATIVE_TOOLS else set()
    )
    wanted = [path for path in traps if path.stem not in left_out]
    result, cases = measured(tmp_path, wanted, Load(tool=tool, time_s=1.0), task="a_blink")
    for path in wanted:
        verdict, code = EXPECTED[path.stem]
        assert cases[path.stem].verdict == verdict, (path.stem, cases[path.stem])
        assert code in [reason.code for reason in cases[path.stem].reasons], (path.stem, cases[path.stem])
    half = record_of(result, "half_500")
    assert half.tool == tool
    assert half.tool_cpus >= 1
    assert bool(half.bursts.took_s) is not DRIVERS[tool].streams_responses
    assert sum(half.bursts.wrong_status) + half.transactions.status.count(500) > 0


@pytest.mark.parametrize("tool", TOOLS)
def test_404_responses_are_not_counted_as_transactions(tool: str) -> None:
    totals = totals_of(tool, "not_found")
    record = burst_record_of("1_all_404", tool=tool, right=totals.right, wrong_status=totals.wrong_status)
    (case,) = summarize(result_of([record])).cases
    assert (case.verdict, [reason.code for reason in case.reasons]) == ("failed", ["no_transactions"])


def test_siege_sends_the_given_number_of_requests(tmp_path) -> None:
    """test_a_private_network_has_separate_local_ports checks the same for ab."""
    load_ = Load(tool="siege", time_s=LIMIT_S, requests=200, keep_alive=True)
    sent_are_200(*measured(tmp_path, [SERVERS / "tools" / "on_waitress.py"], load_))


def test_a_run_rejects_a_load_that_the_tool_does_not_support(tmp_path) -> None:
    needed("wrk")
    with pytest.raises(BadInputError, match="wrk can't stop after a given number of requests"):
        measured(tmp_path, [SERVERS / "tools" / "on_waitress.py"], Load(tool="wrk", requests=100))


@pytest.mark.parametrize("tool", thorough(["ab", "wrk"], quick=("wrk",)))
def test_the_load_tool_is_reported_as_the_bottleneck_for_nginx_but_not_for_waitress(tool: str, tmp_path) -> None:
    needed(tool)
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed")
    scripts = [SERVERS / "tools" / f"{name}.py" for name in ("nginx_static", "on_waitress")]
    _, cases = measured(tmp_path, scripts, Load(tool=tool, time_s=0.5), users=25)
    reasons = {name: [reason.message for reason in case.reasons] for name, case in cases.items()}
    limits = {name: [one for one in all_ if "the load tool was the limit" in one] for name, all_ in reasons.items()}
    assert not limits["on_waitress"], reasons
    if not limits["nginx_static"] and "busy_machine" in [reason.code for reason in cases["nginx_static"].reasons]:
        pytest.skip("other programs used so much CPU time that nginx was the limit")
    assert limits["nginx_static"], reasons


def test_a_crash_is_reported_if_the_tool_reports_only_totals(tmp_path) -> None:
    """test_crashing_servers.py tests the same with siege, which reports single responses."""
    needed("ab")
    result, _ = measured(tmp_path, [SERVERS / "crashes_after_a_second.py"], Load(tool="ab", time_s=3.0), task="a_blink")
    (record,) = result.records
    assert record.failure.code == "died", record.failure
