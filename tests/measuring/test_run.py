"""A real run of two strategies: its output, its result file, and reports and comparisons of the result."""

import json
import os
import re
from itertools import pairwise

import pytest
from command import invoke
from conftest import MACHINE_FLAGS, SUPPORT, server_flags
from machine_stalls import watching

from under_siege.judge.ranking import summarize
from under_siege.record.result import SCHEMA, load

TOO_LONG_S = 0.3  # shortest stall of the machine that causes the run to be repeated

KEYS = {
    "server",
    "title",
    "task",
    "users",
    "workers",
    "python",
    "rounds",
    "events_per_s",
    "first_event_s",
    "gap_s",
    "gil",
    "gil_enabled_by",
    "verdict",
    "reasons",
    "rate_per_s",
    "ceiling_per_s",
    "of_ceiling",
    "rank",
    "availability_pct",
    "transactions",
    "response_s",
    "ping_s",
    "cpu_s_per_transaction",
    "memory_bytes",
    "memory_kind",
    "parameters",
    "rate_at_usual_speed_per_s",
    "speed",
    "best",
    "ready_s",
    "metrics",
    "cpus",
    "memory_limit_bytes",
    "throttled_pct",
    "requests",
}
LATENCY = {"p50", "p95", "p99", "max", *(f"p{percent}_{end}" for percent in (50, 95, 99) for end in ("low", "high"))}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Run two strategies for two rounds with an I/O-bound task; repeat the run up to twice if the machine stalls.

    Return the completed command, its result file and the longest stall of the machine in seconds.
    """
    for _ in range(3):
        with watching() as stood_still_s:
            found = one_run(tmp_path_factory.mktemp("measured"))
        if stood_still_s() < TOO_LONG_S:
            break
    return *found, stood_still_s()


def one_run(folder):
    words = ("run", "2", "4_async_processexecutor", "--rounds", "2", "--time", "1s", "--users", "6", "--workers", "2")
    ran = invoke(*words, "--task", "sample_tasks:a_blink", folder=folder, env={"PYTHONPATH": str(SUPPORT)})
    (file,) = (folder / "results").glob("*.json")
    return ran, file


def test_a_run_prints_a_table_and_saves_its_raw_values(measured) -> None:
    ran, file, _ = measured
    cases = summarize(load(file)).cases
    assert ran.returncode == (0 if all(case.verdict == "ok" for case in cases) else 3), ran.stderr
    assert not any(server_flags(case) for case in cases)
    for server in ("2_async", "4_async_processexecutor", "ceiling"):
        assert re.search(rf"^(→ )?[12]? +{server} +\d", ran.stdout, re.MULTILINE)
    assert ran.stderr.endswith(f"Raw values: results/{file.name}\n")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.json", file.name)


def test_the_result_file_contains_raw_values_and_the_environment(measured) -> None:
    result = load(measured[1])
    assert result.schema == SCHEMA
    assert [record.round for record in result.records] == [1, 1, 1, 2, 2, 2]
    assert result.environment.tools["siege"].count(".") == 2
    assert result.environment.cpus >= result.environment.usable_cpus >= 1
    (packages,) = result.environment.packages_of.values()
    assert {"tornado", "flask", "aiohttp", "gevent"} <= set(packages)
    for record in served(result):
        assert record.failure is None
        assert record.checks.code == ["", ""]  # at the beginning and the end
        assert_the_machine_was_watched(record)
        assert record.idle_answer_s > 0
        assert 0 < record.machine.busy_s <= record.machine.total_s
        assert record.load_s == pytest.approx(1, abs=0.3)
        assert len({len(column) for column in _columns(record.transactions)}) == 1
        assert set(record.transactions.user) == set(range(6))
        assert set(record.transactions.status) == {200}
        assert set(record.transactions.size_bytes) == {record.answer_bytes}
        assert record.tool_unknown_lines == []
        assert "Transactions:" in record.tool_report
        assert record.memory_kind in ("pss", "rss")
        assert record.samples.cpu_s == sorted(record.samples.cpu_s)
        assert len(record.samples.at_s) >= 2


def assert_the_machine_was_watched(record) -> None:
    """Check that speed samples and baseline runs were recorded before and after the siege."""
    beats, cpus = record.beats, os.sched_getaffinity(0)
    assert set(beats.cpu) == set(record.cpu_times.busy_s) == cpus
    assert len(beats.at_s) == len(beats.cpu) == len(beats.took_s) > 20 * len(cpus)
    assert max(min(beats.at_s), min(record.alone_at_s)) < 0
    assert max(beats.at_s) > record.load_s < max(record.alone_at_s)
    assert len(record.alone_wall_s) == len(record.alone_cpu_s) == len(record.alone_on_cpu) == len(record.alone_at_s)
    assert set(record.alone_on_cpu) <= cpus
    assert all(0 < cpu_s <= wall_s for cpu_s, wall_s in zip(record.alone_cpu_s, record.alone_wall_s, strict=True))
    for used_s in record.cpu_times.busy_s.values():
        assert used_s == sorted(used_s)
        assert len(used_s) == len(record.cpu_times.at_s)


def served(result):
    """Return the records of the servers, without those of the ceiling."""
    return [record for record in result.records if not record.is_ceiling]


def test_the_ceiling_is_measured_in_every_round(measured) -> None:
    bare = [record for record in load(measured[1]).records if record.is_ceiling]
    assert [record.round for record in bare] == [1, 2]
    for record in bare:
        assert record.failure is None
        assert set(record.transactions.user) == set(range(6))
        assert set(record.transactions.size_bytes) == {record.answer_bytes}
        assert_the_machine_was_watched(record)
        assert set(record.checks.code) == {""}
        assert record.load_s == pytest.approx(1, abs=0.3)


def _columns(transactions):
    return [getattr(transactions, name) for name in transactions.__struct_fields__ if name != "request"]  # of a mix


def test_pings_are_sent_on_schedule_despite_unanswered_pings(measured) -> None:
    for record in served(load(measured[1])):
        due = sorted(record.pings.due_s)
        assert due == pytest.approx([0.05 * round(due_s / 0.05) for due_s in due], abs=0.001)
        assert len(set(due)) == len(due)
        assert not [due_s for due_s in due if 0.76 < due_s < 1.24]  # the pause around the lone ping
        sent_s = min(record.load_s, 0.75) + max(0.0, record.load_s - 1.25)
        assert sent_s / 0.05 - 2 <= len(due) <= record.case_s / 0.05  # the load tool ends no later than the case
        assert set(record.pings.problem) == {""}
    blocked = [record for record in load(measured[1]).records if record.server == "2_async"]
    for record in blocked:  # a ping waits about 0.3 s, so the next ones are due before it is answered
        pings = sorted(zip(record.pings.due_s, record.pings.sent_s, record.pings.waited_s, strict=True))
        next_sent_s = [
            (due + waited, sent) for (due, _, waited), (next_due, sent, _) in pairwise(pings) if next_due < due + waited
        ]
        assert next_sent_s
        assert sum(sent < answered for answered, sent in next_sent_s) > len(next_sent_s) / 2


def test_the_number_of_transactions_matches_the_report_of_siege(measured) -> None:
    for record in served(load(measured[1])):
        counted = int(re.search(r"Transactions:\s+(\d+)", record.tool_report)[1])
        # At its end, siege may count a response that it has not printed, or print one that it has not counted.
        assert abs(len(record.transactions.status) - counted) <= record.users


def test_the_json_report_has_the_documented_keys(measured, run_cli) -> None:
    told = json.loads(run_cli("report", str(measured[1]), "--format", "json").stdout)
    assert set(told) == {"schema", "command", "began_at", "environment", "cases"}
    assert (told["schema"], told["command"][:2]) == (SCHEMA, ["bench.py", "run"])
    cases = told["cases"]
    assert [case["server"] for case in cases] == ["2_async", "4_async_processexecutor"]
    for case in cases:
        assert set(case) == KEYS
        assert {reason["code"] for reason in case["reasons"]} <= MACHINE_FLAGS
        assert (case["verdict"] == "ok", case["rounds"]) == (not case["reasons"], 2)
        assert set(case["rate_per_s"]) == set(case["of_ceiling"]) == {"mean", "low", "high"}
        assert 0 < case["rate_per_s"]["low"] < case["rate_per_s"]["high"]
        middle = case["rate_at_usual_speed_per_s"] or case["rate_per_s"]["mean"]
        assert case["rate_per_s"]["low"] <= middle <= case["rate_per_s"]["high"]
        for latency in (case["response_s"], case["ping_s"]):
            assert set(latency) == LATENCY
            assert latency["p50_low"] <= latency["p50"] <= latency["p50_high"]
            if None not in (latency["p99"], latency["p99_low"]):  # unknown if the longest request outlasts the siege
                assert latency["p99_low"] <= latency["p99"] <= latency["p99_high"]
        assert case["availability_pct"] == 100
        assert case["memory_bytes"] > 1e7
        assert case["memory_kind"] in ("pss", "rss")
        assert case["cpu_s_per_transaction"] > 0
        assert 0.1 < case["of_ceiling"]["mean"] < 1.5
        assert 0 < case["speed"]["lowest"] <= case["speed"]["mean"] <= case["speed"]["highest"]
        assert case["parameters"] == ({} if case["server"] == "2_async" else {"workers": 2})
        assert case["ceiling_per_s"] > 0
        assert case["rank"] in ((1, 2) if case["verdict"] == "ok" else (None,))


def test_report_prints_the_table_of_the_run_and_writes_output_files(measured, run_cli, tmp_path) -> None:
    ran, file, _ = measured
    assert run_cli("report", str(file)).stdout == ran.stdout
    assert run_cli("report", str(file), "--out", "table.txt").stdout == ""
    assert (tmp_path / "table.txt").read_text() == ran.stdout


def test_json_figures_match_the_raw_values(measured, run_cli) -> None:
    cases = json.loads(run_cli("report", str(measured[1]), "--format", "json").stdout)["cases"]
    raw = json.loads(measured[1].read_text())["records"]
    for case in cases:
        records = [record for record in raw if record["server"] == case["server"]]
        statuses = [status for record in records for status in record["transactions"]["status"]]
        assert case["transactions"] == statuses.count(200)
        waited = sorted(wait for record in records for wait in record["pings"]["waited_s"])
        assert case["ping_s"]["max"] == waited[-1]
        assert waited[len(waited) // 2 - 1] <= case["ping_s"]["p50"] <= waited[len(waited) // 2]
        answered = [
            (
                len(record["transactions"]["status"])
                + sum(at < record["load_s"] for at in record["checks"]["answered_s"])
            )
            / record["load_s"]
            for record in records
        ]
        assert case["rate_per_s"]["mean"] == pytest.approx(sum(answered) / len(answered), rel=0.25)  # a rough estimate


def test_compare_reports_equal_worse_and_incomparable_results(measured, run_cli, tmp_path) -> None:
    same = run_cli("compare", str(measured[1]), str(measured[1]))
    trusted = {case.server for case in summarize(load(measured[1])).cases if case.verdict == "ok"}
    assert same.returncode == (0 if len(trusted) == 2 else 3), same.stdout
    assert "worse" not in same.stdout.replace("better, worse", "")
    slower = json.loads(measured[1].read_text())
    for record in slower["records"]:
        if record["server"] == "2_async":
            for sample in range(len(record["samples"]["memory_bytes"])):
                record["samples"]["memory_bytes"][sample] *= 10 if record["round"] == 1 else 11
    (tmp_path / "slower.json").write_text(json.dumps(slower))
    worse = run_cli("compare", str(measured[1]), "slower.json")
    line = next(line for line in worse.stdout.splitlines() if line.startswith("2_async"))
    assert (worse.returncode, "worse" in line) == ((1, True) if "2_async" in trusted else (3, False)), worse.stdout
    other = json.loads(measured[1].read_text())
    other["environment"]["cpu_model"] = "an abacus"
    (tmp_path / "other.json").write_text(json.dumps(other))
    refused = run_cli("compare", str(measured[1]), "other.json")
    assert refused.returncode == 2
    assert "different CPUs" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    told = run_cli("compare", str(measured[1]), "other.json", "--anyway")
    assert told.stdout.startswith("Warning: the results were measured with different CPUs")
