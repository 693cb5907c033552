"""bench.py and its processes: tasks tried before a run, rounds, missing or greedy load tools, exit codes."""

import asyncio
import contextlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench_runs import QUICK, without_a_ceiling
from conftest import ROOT, SUPPORT, WAITING, bench_command
from fake_load import SilentWatcher
from plans import plan_of
from simulated_record import bare_record, record_of

from common.errors import BadInputError
from under_siege.host.interpreter import interpreter
from under_siege.judge.stopping_rule import LEAST_ROUNDS, MOST_ROUNDS, wanted
from under_siege.load.request import CLIENT
from under_siege.measure import case_run, load_run, rounds
from under_siege.measure.racing import Racing
from under_siege.measure.rounds import run_plan
from under_siege.measure.session import Reporting
from under_siege.record.result import load
from under_siege.suite import expected_response

REFUSED = [
    (["run", "2", "--task", "no_such:f"], "no_such:f"),
    (["run", "2", "--task", "jobs:raises"], "ValueError"),
    (["run", "4", "--task", "only_in_main:f"], "worker process"),
    (["run", "4", "--task", "jobs:kills_itself"], "terminated"),
    (["run", "--python", "/bin/true"], "/bin/true"),
]


@pytest.mark.parametrize(("words", "error"), REFUSED, ids=lambda part: part[-1] if isinstance(part, list) else "")
def test_a_task_or_python_that_fails_causes_a_one_line_error_before_a_result_file_is_created(
    words: list[str], error: str, run_cli, tmp_path: Path
) -> None:
    jobs = (SUPPORT / "sample_tasks.py").read_text() + "\n\ndef kills_itself():\n    os.kill(os.getpid(), 9)\n"
    (tmp_path / "jobs.py").write_text(jobs)
    (tmp_path / "only_in_main.py").write_text(
        "import multiprocessing\nassert multiprocessing.parent_process() is None\ndef f(): return 1\n"
    )
    refused = run_cli(*words)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
    assert error in refused.stderr
    assert not list(tmp_path.glob("results/*"))


def test_a_task_that_hangs_times_out_when_it_is_tried_before_the_run(monkeypatch) -> None:
    monkeypatch.chdir(SUPPORT)
    monkeypatch.setattr(expected_response, "TRIAL_LIMIT_S", 1.0)
    with pytest.raises(BadInputError, match="did not end within 1 s"):
        asyncio.run(expected_response.try_task("sample_tasks:half_a_minute", interpreter()))


def test_without_siege_the_own_client_sends_the_load(run_cli, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with without_a_ceiling():
        ran = run_cli("run", "2", *QUICK, *WAITING, "--out", str(tmp_path / "r.json"))
    assert "siege is not installed, so this run uses the bench's own client" in ran.stderr
    result = load(tmp_path / "r.json")
    assert {(record.tool, bool(record.failure)) for record in result.records} == {(CLIENT, False)}
    examined = run_cli("doctor")
    assert examined.returncode == 1
    assert "siege is not installed; install it with: " in examined.stdout


def run_bench_and_then(statement: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run bench.py in a process that executes a statement at its end, after all functions registered with atexit."""
    script = (
        f"import atexit, gc, runpy, sys; sys.argv = ['bench.py', *{words!r}]; atexit.register(lambda: {statement});"
        "runpy.run_path('bench.py', run_name='__main__')"
    )
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)


def test_help_is_shown_without_importing_third_party_packages_or_asyncio() -> None:
    shown = run_bench_and_then("print(sorted(sys.modules), file=sys.stderr)", "--help")
    assert shown.returncode == 0
    assert "capacity" in shown.stdout
    for heavy in ("aiohttp", "asyncio", "msgspec", "numpy", "psutil", "rich", "scipy", "tornado"):
        assert f"'{heavy}'" not in shown.stderr


def test_the_exit_code_is_right_after_a_suite_was_read(tmp_path: Path) -> None:
    """Without gc.freeze at exit, about one of four processes crashes instead (msgspec issue 717).

    Count the frozen objects at the end of one process, because many processes would be needed to see a crash.
    """
    suite = tmp_path / "suite.toml"
    suite.write_text('[servers.a]\ncommand = "x --port {port}"\n[ping]\nready_within = "2 sek"\n')
    ended = run_bench_and_then("print(gc.get_freeze_count())", "trace", str(suite))
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert int(ended.stdout) > 0


def test_a_closed_stdout_pipe_causes_no_traceback() -> None:
    listing = subprocess.Popen(bench_command("list"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    listing.stdout.close()
    errors = listing.stderr.read()
    listing.stderr.close()
    listing.wait()
    assert "Traceback" not in errors


ALONE = ("alone_wall_s", "alone_cpu_s")


def test_automatic_rounds_end_as_soon_as_no_case_needs_another_round(tmp_path, monkeypatch) -> None:
    """Simulate only the measurement; the run is real."""

    @contextlib.asynccontextmanager
    async def without_monitors(*_):
        yield

    async def simulated(turn) -> None:
        record = turn.record
        made = bare_record(record.round) if record.is_ceiling else record_of(record.server, record.round)
        for name in ("requests", "samples", "machine", "load_s", "workers", "answer_bytes", *ALONE):
            setattr(record, name, getattr(made, name))

    monkeypatch.setattr(case_run.CaseRun, "measure", simulated)
    monkeypatch.setattr(rounds, "beside_the_machine", without_monitors)
    plan = plan_of("2", users=5, time_s=4.0, rounds=MOST_ROUNDS)
    reporting = Reporting(tmp_path / "r.json", SilentWatcher(), ["bench.py", "run"])
    result, stopped_by, is_saved = run_plan(plan, reporting, racing=Racing(wanted))
    assert (stopped_by, is_saved) == (None, True)
    assert max(record.round for record in result.records) == LEAST_ROUNDS
    assert [record.server for record in result.records].count("bare") == len(result.records) / 2


def test_a_load_tool_that_uses_too_much_memory_is_stopped(tmp_path, monkeypatch) -> None:
    """siege leaks memory with each 503 response, and can exhaust the memory of the machine."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    monkeypatch.setattr(load_run, "MOST_MEMORY", 0.0)
    plan = replace(plan_of("2", users=3, task="sample_tasks:a_blink"), ceilings=())
    result, *_ = run_plan(plan, Reporting(tmp_path / "r.json", SilentWatcher(), ["bench.py", "run"]))
    assert result.records[0].failure.code == "siege_memory"
