"""The command line of bench.py; test_run.py tests the measurements."""

import asyncio
import contextlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import ROOT, SERVERS, SUPPORT, bench_command
from plans import plan_of
from simulated_record import bare_record, record_of

from common.errors import BadInputError
from under_siege.host.interpreter import interpreter
from under_siege.judge.stopping_rule import MOST_ROUNDS, wanted
from under_siege.measure import case_run, load_run
from under_siege.measure.duration import say_how_long
from under_siege.measure.session import run_plan
from under_siege.record.result import load
from under_siege.suite import expected_response
from under_siege.suite.expected_response import Expectation


def test_list_shows_every_strategy_with_its_title(run_cli) -> None:
    shown = run_cli("list")
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [path.stem for path in SERVERS]
    assert "In a process pool" in lines[3]


def test_list_json_contains_the_title_and_port_of_every_strategy(run_cli) -> None:
    entries = json.loads(run_cli("list", "--json").stdout)
    assert [entry["server"] for entry in entries] == [path.stem for path in SERVERS]
    assert entries[2]["port"] == 8002
    assert entries[2]["title"].startswith("In a thread pool")


def test_each_round_runs_every_case_in_an_order_set_by_the_seed() -> None:
    def order(seed: int) -> list[list[str]]:
        plan = plan_of(users=5, rounds=4, seed=seed)
        runnable.update(case.server for case in plan.cases)
        assert runnable | {one.server for one in plan.left_out} == {path.stem for path in SERVERS}
        return [[case.server for case in cases] for cases in plan.in_order()]

    runnable: set[str] = set()
    assert order(1) == order(1) != order(2)
    rounds = order(1)
    assert len(rounds) == 4
    assert all(sorted(stems) == sorted([*runnable, "bare"]) for stems in rounds)
    assert len({tuple(stems) for stems in rounds}) > 1


def test_a_task_is_imported_from_the_current_directory(run_cli, tmp_path) -> None:
    """The task prints text without a newline, which must not corrupt the measured results."""
    shutil.copy(SUPPORT / "sample_tasks.py", tmp_path / "my_jobs.py")
    ran = run_cli(
        "run", "4", "--task", "my_jobs:prints", "--rounds", "1", "--time", "1s", "--users", "3", "--out", "r.json"
    )
    assert (tmp_path / "r.json").is_file(), ran.stderr
    records = load(tmp_path / "r.json").records
    assert {record.case.task for record in records} == {"my_jobs:prints"}, ran.stderr
    assert [record.failure for record in records] == [None] * 2
    for record in records:
        assert record.answer_bytes == len("after printing")
        assert set(record.transactions.size_bytes) == {record.answer_bytes}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["run", "99"], "unknown server '99': expected a number, a path, or one of 1_sync"),
        (["run", "nonsense"], "unknown server 'nonsense'"),
        (["run", "missing.py"], "server 'missing.py' can't be read: No such file or directory"),
        (["run", "."], "has no suite.toml; create it with python bench.py init"),
        (["run", "empty.py"], "violates the server contract"),
        (["run", "broken.py"], "is not Python: invalid syntax"),
        (["run", "2", "--task", "nothing"], "unknown task 'nothing'"),
        (["run", "2", "--task", "no_such:f"], "can't import task 'no_such:f'"),
        (["run", "2", "--task", "jobs:raises"], "task 'jobs:raises' raised ValueError: the first line and a second"),
        (["run", "2", "--task", "jobs:is_async_generator"], "is an async generator function"),
        (["run", "4", "--task", "only_in_main:f"], "can't be sent to a worker process"),
        (["run", "4", "--task", "jobs:kills_itself"], "the task terminated the process"),
        (["run", "--users", "0"], "Invalid value for '--users'"),
        (["run", "--time", "0"], "'0' is not a duration"),
        (["run", "--time", "banana"], "'banana' is not a duration: use for example 4s"),
        (["run", "--time", "-4s"], "is not a duration"),
        (["run", "--rounds", "0"], "'0' is not a number of rounds: use 1, 2, 3 ... or auto"),
        (["compare", "half.json", "half.json"], "not a result of bench.py run"),
        (["run", "--workers", "0"], "Invalid value for '--workers'"),
        (["run", "--python", "no-such-python"], "no interpreter 'no-such-python'"),
        (["run", "--python", "/bin/true"], "'/bin/true' does not run as Python"),
        (["run", "--out", "no/such/folder/r.json"], "can't be written: No such file or directory"),
        (["run", "--out", "."], "is a folder; expected a file"),
        (["run", "--nonsense"], "No such option"),
        (["nonsense"], "No such command 'nonsense'"),
        (["report"], "Missing argument"),
        (["report", "missing.json"], "missing.json: No such file or directory"),
        (["report", "broken.py"], "broken.py: not a result of bench.py run"),
        (["report", "later.json"], "later.json: schema 999: expected 5"),
        (["report", "half.json"], "not a result of bench.py run"),
        (["report", "half.json", "--format", "poem"], "Invalid value for '--format'"),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, list) else "",
)
def test_invalid_input_causes_a_one_line_error_before_a_result_file_is_created(words, error, run_cli, tmp_path) -> None:
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "broken.py").write_text("def nothing(:\n")
    (tmp_path / "later.json").write_text('{"schema": 999}')
    (tmp_path / "half.json").write_text('{"schema": 1, "records": [')
    jobs = (SUPPORT / "sample_tasks.py").read_text() + "\n\ndef kills_itself():\n    os.kill(os.getpid(), 9)\n"
    (tmp_path / "jobs.py").write_text(jobs)
    (tmp_path / "only_in_main.py").write_text(
        "import multiprocessing\nassert multiprocessing.parent_process() is None\ndef f(): return 1\n"
    )
    refused = run_cli(*words)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert error in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("results/*"))


def test_a_bench_process_reports_an_unknown_server_with_exit_code_2(bench) -> None:
    refused = bench("run", "99")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("bench.py: unknown server '99': expected a number, a path, or one of 1_sync")
    assert len(refused.stderr.splitlines()) == 1


def test_a_missing_siege_is_reported_with_its_install_command(run_cli, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = run_cli("run", "2")
    assert refused.returncode == 2
    assert refused.stderr.startswith("bench.py: siege is not installed; install it with: ")
    assert len(refused.stderr.splitlines()) == 1


def test_a_hanging_task_times_out_when_it_is_tried_before_the_run(bench, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(SUPPORT)
    monkeypatch.setattr(expected_response, "TRIAL_LIMIT_S", 1.0)
    with pytest.raises(BadInputError, match="did not end within 1 s"):
        asyncio.run(expected_response.try_task("sample_tasks:half_a_minute", interpreter()))


def test_help_is_shown_without_importing_third_party_packages_or_asyncio() -> None:
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


def test_a_closed_stdout_pipe_causes_no_traceback(bench) -> None:
    listing = subprocess.Popen(bench_command("list"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    listing.stdout.close()
    errors = listing.stderr.read()
    listing.stderr.close()
    listing.wait()
    assert "Traceback" not in errors


def test_doctor_reports_a_missing_siege_with_exit_code_1(run_cli, tmp_path, monkeypatch) -> None:
    healthy = run_cli("doctor")
    assert healthy.returncode in (0, 1)
    assert healthy.stdout
    monkeypatch.setenv("PATH", str(tmp_path))
    without_siege = run_cli("doctor")
    assert without_siege.returncode == 1
    assert "siege is not installed; install it with: " in without_siege.stdout


class RecordingWatcher:
    """A watcher that records its warnings."""

    def __init__(self) -> None:
        self.warned: list[str] = []

    def warn(self, message: str) -> None:
        self.warned.append(message)

    def __getattr__(self, _name: str):
        return lambda *_: None


ALONE = ("alone_wall_s", "alone_cpu_s")


def test_automatic_rounds_end_as_soon_as_no_case_needs_another_round(tmp_path, monkeypatch) -> None:
    """Simulate only the measurement; the run is real."""

    @contextlib.asynccontextmanager
    async def without_monitors(*_):
        yield

    async def simulated(turn) -> None:
        record = turn.record
        made = bare_record(record.round) if record.is_ceiling else record_of(record.server, record.round)
        for name in ("transactions", "pings", "samples", "machine", "load_s", "workers", "answer_bytes", *ALONE):
            setattr(record, name, getattr(made, name))

    monkeypatch.setattr(case_run.CaseRun, "measure", simulated)
    monkeypatch.setattr(case_run, "beside_the_machine", without_monitors)
    plan = plan_of("2", users=5, time_s=4.0, rounds=MOST_ROUNDS)
    result, stopped_by, is_saved = run_plan(plan, tmp_path / "r.json", RecordingWatcher(), ["bench.py", "run"], wanted)
    assert (stopped_by, is_saved) == (None, True)
    assert max(record.round for record in result.records) == 2
    assert [record.server for record in result.records].count("bare") == len(result.records) / 2


def test_a_time_too_short_for_the_task_causes_a_warning() -> None:
    plan = plan_of("3", task="sign_up", users=4)
    expected, watcher = Expectation(b"", 0.28, 0.001), RecordingWatcher()
    say_how_long(plan, {plan.cases[0].work: expected}, watcher)
    assert watcher.warned == ["--time 1s is too short for sign_up with 4 users: use --time auto, or 4s or more"]


def test_a_load_tool_that_uses_too_much_memory_is_stopped(tmp_path, monkeypatch) -> None:
    """siege leaks memory with each 503 response, and can exhaust the memory of the machine."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    monkeypatch.setattr(load_run, "MOST_MEMORY", 0.0)
    plan = replace(plan_of("2", users=3, task="sample_tasks:a_blink"), ceilings=())
    result, *_ = run_plan(plan, tmp_path / "r.json", RecordingWatcher(), ["bench.py", "run"])
    assert result.records[0].failure.code == "siege_memory"
    assert 'use tool = "wrk" in a suite' in result.records[0].failure.message


def test_the_exit_code_is_right_after_a_suite_was_read(tmp_path: Path) -> None:
    """Without gc.freeze at exit, about one of four processes crashes instead (msgspec issue 717).

    Count the frozen objects at the end of one process, because many processes would be needed to see a crash.
    """
    suite = tmp_path / "suite.toml"
    suite.write_text('[servers.a]\ncommand = "x --port {port}"\n[ping]\nready_within = "2 sek"\n')
    script = (
        f"import atexit, gc, runpy, sys; sys.argv = ['bench.py', 'trace', {str(suite)!r}];"
        "atexit.register(lambda: print(gc.get_freeze_count()));"  # runs after all functions that are registered later
        "runpy.run_path('bench.py', run_name='__main__')"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2
    assert int(ended.stdout) > 0
