"""bench.py as its users call it."""

import json
import re
import shutil
import stat
import subprocess
import sys

import psutil
import pytest
from conftest import OF_THE_MACHINE, ROOT, SERVERS, TESTS, accusations, bench_command, gone, wait_until
from planned import plan_of

from common.cpus import usable_cpu_numbers
from common.model.record import SCHEMA, load
from common.report.judging.comparison import summarize

KEYS = {
    "server",
    "title",
    "task",
    "users",
    "workers",
    "python",
    "rounds",
    "gil",
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
}
LATENCY = {"p50", "p95", "p99", "max", "p50_low", "p50_high", "p99_low", "p99_high"}


def test_list_shows_every_strategy_with_its_title(bench) -> None:
    shown = bench("list")
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [path.stem for path in SERVERS]
    assert "In a process pool" in lines[3]


def test_list_for_programs(bench) -> None:
    entries = json.loads(bench("list", "--json").stdout)
    assert [entry["server"] for entry in entries] == [path.stem for path in SERVERS]
    assert entries[2]["port"] == 8002
    assert entries[2]["title"].startswith("In a thread pool")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """One run of two strategies with two rounds: what it printed, and its file."""
    folder = tmp_path_factory.mktemp("measured")
    command = bench_command("run", "2", "4_async_processexecutor", "--rounds", "2", "--time", "2s", "--users", "6")
    ran = subprocess.run([*command, "--workers", "2"], cwd=folder, capture_output=True, text=True)
    (file,) = (folder / "results").glob("*.json")
    return ran, file


def test_a_run_compares_and_saves(measured) -> None:
    ran, file = measured
    cases = summarize(load(file)).cases
    assert ran.returncode == (0 if all(case.verdict == "ok" for case in cases) else 3), ran.stderr
    assert not any(accusations(case) for case in cases)
    assert re.search(r"2_async +([12] +)?1 +\d", ran.stdout)
    assert re.search(r"4_async_processexecutor +(1 +)?2 +\d", ran.stdout)
    assert ran.stderr.endswith(f"Raw values: results/{file.name}\n")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.json", file.name)


def test_the_file_holds_raw_values_and_the_environment(measured) -> None:
    result = load(measured[1])
    assert result.schema == SCHEMA
    assert [record.round for record in result.records] == [1, 1, 1, 2, 2, 2]
    assert result.environment.tools["siege"].count(".") == 2
    assert result.environment.cpus >= result.environment.usable_cpus >= 1
    (packages,) = result.environment.packages_of.values()
    assert {"tornado", "flask", "aiohttp", "gevent"} <= set(packages)
    for record in served(result):
        assert record.failure is None
        assert record.checks.code == ["", "", ""]  # after 0 and 1 s, and at the end
        assert_the_machine_was_watched(record)
        assert record.idle_answer_s > 0
        assert 0 < record.machine.busy_s <= record.machine.total_s
        assert record.load_s == pytest.approx(2, abs=0.3)
        assert len({len(column) for column in _columns(record.transactions)}) == 1
        assert set(record.transactions.user) == set(range(6))
        assert set(record.transactions.status) == {200}
        assert set(record.transactions.size_bytes) == {record.answer_bytes}
        assert record.tool_unknown_lines == []
        assert "Transactions:" in record.tool_report
        assert record.memory_kind in ("pss", "uss", "rss")
        assert record.samples.cpu_s == sorted(record.samples.cpu_s)
        assert len(record.samples.at_s) >= 5


def assert_the_machine_was_watched(record) -> None:
    """By the metronome, and by runs of the task alone before and after the siege."""
    beats, cpus = record.beats, set(usable_cpu_numbers())
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
    """The records of servers, without the bare case."""
    return [record for record in result.records if not record.is_ceiling]


def test_the_bare_case_is_measured_in_every_round(measured) -> None:
    bare = [record for record in load(measured[1]).records if record.is_ceiling]
    assert [record.round for record in bare] == [1, 2]
    for record in bare:
        assert record.failure is None
        assert set(record.transactions.user) == set(range(6))
        assert set(record.transactions.size_bytes) == {record.answer_bytes}
        assert_the_machine_was_watched(record)
        assert set(record.checks.code) == {""}
        assert record.load_s == pytest.approx(2, abs=0.3)


def _columns(transactions):
    return [getattr(transactions, name) for name in transactions.__struct_fields__]


def test_pings_are_sent_when_they_are_due_whether_or_not_the_earlier_ones_were_answered(measured) -> None:
    for record in served(load(measured[1])):
        due = sorted(record.pings.due_s)
        assert due == pytest.approx([0.05 * number for number in range(len(due))], abs=0.001)
        assert len(due) == pytest.approx(record.load_s / 0.05, abs=2)
        assert set(record.pings.problem) == {""}
    blocked = [record for record in load(measured[1]).records if record.server == "2_async"]
    for record in blocked:  # several were on their way at the same time
        assert max(record.pings.waited_s) > 0.05
        assert max(sent - due for sent, due in zip(record.pings.sent_s, record.pings.due_s, strict=True)) < 0.05


def test_our_count_is_sieges_count(measured) -> None:
    for record in served(load(measured[1])):
        counted = int(re.search(r"Transactions:\s+(\d+)", record.tool_report)[1])
        # At its end siege may count an answer that it did not print any more, or the other way round.
        assert abs(len(record.transactions.status) - counted) <= record.users


def test_every_case_takes_its_turn_in_every_round_in_the_same_order_for_the_same_seed() -> None:
    def order(seed: int) -> list[list[str]]:
        plan = plan_of(users=5, rounds=4, seed=seed)
        able.update(case.server for case in plan.cases)
        assert able | {one.server for one in plan.left_out} == {path.stem for path in SERVERS}
        return [[case.server for case in cases] for cases in plan.in_order()]

    able: set[str] = set()
    assert order(1) == order(1) != order(2)
    rounds = order(1)
    assert len(rounds) == 4
    assert all(sorted(stems) == sorted([*able, "bare"]) for stems in rounds)
    assert len({tuple(stems) for stems in rounds}) > 1


def test_report_as_json_has_the_keys_of_the_contract(measured, bench) -> None:
    told = json.loads(bench("report", str(measured[1]), "--format", "json").stdout)
    assert set(told) == {"schema", "command", "began_at", "environment", "cases"}
    assert (told["schema"], told["command"][:2]) == (SCHEMA, ["bench.py", "run"])
    cases = told["cases"]
    assert [case["server"] for case in cases] == ["2_async", "4_async_processexecutor"]
    for case in cases:
        assert set(case) == KEYS
        assert {reason["code"] for reason in case["reasons"]} <= OF_THE_MACHINE
        assert (case["verdict"] == "ok", case["rounds"]) == (not case["reasons"], 2)
        assert set(case["rate_per_s"]) == set(case["of_ceiling"]) == {"mean", "low", "high"}
        assert 0 < case["rate_per_s"]["low"] < case["rate_per_s"]["high"]
        middle = case["rate_at_usual_speed_per_s"] or case["rate_per_s"]["mean"]
        assert case["rate_per_s"]["low"] <= middle <= case["rate_per_s"]["high"]
        for latency in (case["response_s"], case["ping_s"]):
            assert set(latency) == LATENCY
            assert latency["p50_low"] <= latency["p50"] <= latency["p50_high"]
            assert latency["p99_low"] <= latency["p99"] <= latency["p99_high"]
        assert case["availability_pct"] == 100
        assert case["memory_bytes"] > 1e7
        assert case["memory_kind"] in ("pss", "uss", "rss")
        assert case["cpu_s_per_transaction"] > 0
        assert 0.1 < case["of_ceiling"]["mean"] < 1.5
        assert 0 < case["speed"]["lowest"] <= case["speed"]["mean"] <= case["speed"]["highest"]
        assert case["parameters"] == {}
        assert case["ceiling_per_s"] > 0
        assert case["rank"] in ((1, 2) if case["verdict"] == "ok" else (None,))


def test_report_shows_the_same_table_again_and_writes_files(measured, bench, tmp_path) -> None:
    ran, file = measured
    assert bench("report", str(file)).stdout == ran.stdout
    assert bench("report", str(file), "--out", "table.txt").stdout == ""
    assert (tmp_path / "table.txt").read_text() == ran.stdout


def test_the_task_is_found_in_the_users_own_folder(bench, tmp_path) -> None:
    shutil.copy(TESTS / "sample_tasks.py", tmp_path / "my_jobs.py")
    quick = ("--rounds", "1", "--time", "1s", "--users", "3", "--out", "r.json")
    bench("run", "3", "4", "--task", "my_jobs:in_slices", *quick)
    assert not any(accusations(case) for case in summarize(load(tmp_path / "r.json")).cases)
    bench("run", "4", "--task", "my_jobs:prints", *quick)
    for case in summarize(load(tmp_path / "r.json")).cases:  # such a short task leaves siege too little time
        assert {reason.code for reason in case.reasons} <= {"generator"} | OF_THE_MACHINE


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["run", "99"], "unknown server '99': expected a number, a path, or one of 1_sync"),
        (["run", "nonsense"], "unknown server 'nonsense'"),
        (["run", "missing.py"], "server 'missing.py' can't be read: No such file or directory"),
        (["run", "."], "unknown server '.'"),
        (["run", "./"], "can't be read: Is a directory"),
        (["run", "empty.py"], "doesn't keep the server contract"),
        (["run", "broken.py"], "is not Python: invalid syntax"),
        (["run", "2", "--task", "nothing"], "unknown task 'nothing'"),
        (["run", "2", "--task", "no_such:f"], "cannot import task 'no_such:f'"),
        (["run", "2", "--task", "jobs:raises"], "task 'jobs:raises' raised ValueError: the first line and a second"),
        (["run", "2", "--task", "jobs:is_async"], "is an async function"),
        (["run", "4", "--task", "only_in_main:f"], "can't reach a worker process"),
        (["run", "4", "--task", "jobs:kills_itself"], "it ended the process"),
        (["run", "--users", "0"], "Invalid value for '--users'"),
        (["run", "--users", "many"], "Invalid value for '--users'"),
        (["run", "--time", "0"], "'0' is not a duration"),
        (["run", "--time", "banana"], "'banana' is not a duration: expected something like 4s"),
        (["run", "--time", "automatic"], "'automatic' is not a duration"),
        (["run", "--time", "-4s"], "is not a duration"),
        (["run", "--rounds", "0"], "'0' is not a number of rounds: expected 1, 2, 3 ... or auto"),
        (["run", "--rounds", "some"], "'some' is not a number of rounds"),
        (["compare", "half.json", "half.json"], "not a result of bench.py run"),
        (["run", "--workers", "0"], "Invalid value for '--workers'"),
        (["run", "--python", "no-such-python"], "no interpreter 'no-such-python'"),
        (["run", "--python", "/bin/true"], "'/bin/true' is not a Python that runs"),
        (["run", "--out", "no/such/folder/r.json"], "can't be written: No such file or directory"),
        (["run", "--out", "."], "is a folder; expected a file name"),
        (["run", "--nonsense"], "No such option"),
        (["nonsense"], "No such command 'nonsense'"),
        (["report"], "Missing argument"),
        (["report", "missing.json"], "missing.json: No such file or directory"),
        (["report", "broken.py"], "broken.py: not a result of bench.py run"),
        (["report", "later.json"], "made by a later version (schema 999"),
        (["report", "half.json"], "not a result of bench.py run"),
        (["report", "half.json", "--format", "poem"], "Invalid value for '--format'"),
    ],
    ids=" ".join,
)
def test_bad_input_is_answered_with_one_line_and_nothing_is_started(words, complaint, bench, tmp_path) -> None:
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.py").write_text("def nothing(:\n")
    (tmp_path / "later.json").write_text('{"schema": 999}')
    (tmp_path / "half.json").write_text('{"schema": 1, "records": [')
    jobs = (TESTS / "sample_tasks.py").read_text() + "\n\ndef kills_itself():\n    os.kill(os.getpid(), 9)\n"
    (tmp_path / "jobs.py").write_text(jobs)
    (tmp_path / "only_in_main.py").write_text(
        "import multiprocessing\nassert multiprocessing.parent_process() is None\ndef f(): return 1\n"
    )
    refused = bench(*words)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert complaint in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("results/*"))


def test_without_siege_it_says_what_installs_it(bench, tmp_path) -> None:
    refused = bench("run", "2", env={"PATH": str(tmp_path)})
    assert refused.returncode == 2
    assert refused.stderr.startswith("bench.py: siege is not installed; install it with: ")
    assert len(refused.stderr.splitlines()) == 1


def test_a_hanging_task_is_given_up_before_anything_is_started(bench, tmp_path, monkeypatch) -> None:
    import asyncio

    from common.errors import BadInputError
    from common.harness.ready import expectation
    from common.harness.ready.interpreter import interpreter

    monkeypatch.chdir(TESTS)
    monkeypatch.setattr(expectation, "LIMIT_S", 1.0)
    before = set(psutil.pids())
    with pytest.raises(BadInputError, match="did not end within 1 s"):
        asyncio.run(expectation.try_task("sample_tasks:half_a_minute", interpreter()))
    left = [psutil.Process(pid) for pid in set(psutil.pids()) - before if psutil.pid_exists(pid)]
    wait_until(lambda: all(gone(process) for process in left), 5)


def test_help_needs_none_of_the_heavy_packages() -> None:
    script = (
        "import atexit, runpy, sys; sys.argv = ['bench.py', '--help'];"
        "atexit.register(lambda: print(sorted(sys.modules), file=sys.stderr));"
        "runpy.run_path('bench.py', run_name='__main__')"
    )
    shown = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert shown.returncode == 0
    assert "run" in shown.stdout
    for heavy in ("aiohttp", "asyncio", "msgspec", "numpy", "psutil", "rich", "scipy", "tornado"):
        assert f"'{heavy}'" not in shown.stderr


def test_a_result_can_be_read_by_others(measured) -> None:
    assert stat.S_IMODE(measured[1].stat().st_mode) == 0o644


def test_a_closed_pipe_is_no_traceback(bench) -> None:
    listing = subprocess.Popen(bench_command("list"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    listing.stdout.close()
    errors = listing.stderr.read()
    listing.stderr.close()
    listing.wait()
    assert "Traceback" not in errors


def test_what_can_be_computed_by_hand_from_the_raw_values_is_what_the_json_says(measured, bench) -> None:
    cases = json.loads(bench("report", str(measured[1]), "--format", "json").stdout)["cases"]
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
        assert case["rate_per_s"]["mean"] == pytest.approx(sum(answered) / len(answered), rel=0.25)  # roughly so


def _answered(record) -> int:
    """By siege's users, and by the checks while they were there."""
    return len(record["transactions"]["status"]) + sum(at < record["load_s"] for at in record["checks"]["answered_s"])


def test_compare_in_ci(measured, bench, tmp_path) -> None:
    same = bench("compare", str(measured[1]), str(measured[1]))
    trusted = {case.server for case in summarize(load(measured[1])).cases if case.verdict == "ok"}
    assert same.returncode == (0 if len(trusted) == 2 else 3), same.stdout
    assert "worse" not in same.stdout.replace("better and worse", "")
    slower = json.loads(measured[1].read_text())
    for record in slower["records"]:
        if record["server"] == "2_async":
            for sample in range(len(record["samples"]["memory_bytes"])):
                record["samples"]["memory_bytes"][sample] *= 10 if record["round"] == 1 else 11
    (tmp_path / "slower.json").write_text(json.dumps(slower))
    worse = bench("compare", str(measured[1]), "slower.json")
    line = next(line for line in worse.stdout.splitlines() if line.startswith("2_async"))
    assert (worse.returncode, "worse" in line) == ((1, True) if "2_async" in trusted else (3, False)), worse.stdout
    other = json.loads(measured[1].read_text())
    other["environment"]["cpu_model"] = "an abacus"
    (tmp_path / "other.json").write_text(json.dumps(other))
    refused = bench("compare", str(measured[1]), "other.json")
    assert refused.returncode == 2
    assert "different CPUs" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    told = bench("compare", str(measured[1]), "other.json", "--anyway")
    assert told.stdout.startswith("Compared although they were measured with different CPUs")


def test_doctor_says_what_would_spoil_a_run(bench, tmp_path) -> None:
    fine = bench("doctor")
    assert fine.returncode in (0, 1)
    assert fine.stdout
    ill = bench("doctor", env={"PATH": str(tmp_path)})
    assert ill.returncode == 1
    assert "siege is not installed; install it with: " in ill.stdout


def test_auto_goes_on_until_it_is_certain(bench, tmp_path) -> None:
    ran = bench("run", "2", "--rounds", "auto", "--time", "1s", "--users", "4", "--out", "r.json")
    assert "Traceback" not in ran.stderr
    result = load(tmp_path / "r.json")
    assert 3 <= max(record.round for record in result.records) <= 10
    assert len([record for record in result.records if record.is_ceiling]) == len(served(result))


def test_a_siege_that_is_too_short_for_the_task_is_said_beforehand(bench) -> None:
    ran = bench("run", "3", "--rounds", "1", "--time", "1s", "--users", "4", "--task", "sign_up", "--out", "r.json")
    assert "bench.py: --time 1s is short for sign_up with 4 users: take --time auto, or 4s or more" in ran.stderr
