"""bench.py trace: trace real servers, and draw timelines."""

import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from bench_runs import without_a_ceiling
from command import CommandResult
from conftest import SUPPORT, TESTS
from plans import plan_of

from common.workers import usable_cpus
from under_siege.measure.session import run_plan
from under_siege.record.record import CaseFailedError
from under_siege.record.result import load
from under_siege.show.formats.table import WIDTH
from under_siege.show.progress_bar import ProgressBar
from under_siege.trace import trace_run
from under_siege.trace.timeline import headline, other_work, timelines

RunCli = Callable[..., CommandResult]


def test_the_terminal_shows_the_trace_or_the_failure_of_each_server(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trace a strategy, a server with wrong responses and one without timing headers; then save a chart of them."""
    others = [str(TESTS / "servers" / f"{name}.py") for name in ("answers_wrongly", "sends_no_headers")]
    words = ("--task", "sample_tasks:a_blink", "--requests", "4")
    trace, kept = trace_run.trace_servers, []

    def trace_once(*given):
        kept[:] = kept or [trace(*given)]
        return kept[0]

    monkeypatch.setattr(trace_run, "trace_servers", trace_once)
    ended = run_cli("trace", "4", *others, *words, env={"PYTHONPATH": str(SUPPORT)})
    assert ended.returncode == 1, ended.stderr
    assert "failed: GET / returned 200" in ended.stdout
    lines = ended.stdout.splitlines()
    lines = lines[lines.index("process pool · 4_async_processexecutor") :]
    lines = lines[: lines.index("")]
    assert lines[1].startswith("all 4 answered after ")
    assert {line.split()[-1] for line in lines[1:] if set(line) & set("░▒▓█=")} >= {"1", "2", "3", "4"}
    assert re.search(r"pings .*[▁-█]", ended.stdout)
    assert all(len(line) <= WIDTH for line in ended.stdout.splitlines())
    (without_headers,) = [trace for trace in kept[0][0].traces if trace.server == "sends_no_headers"]
    assert not without_headers.failure
    assert "the server doesn't report when its tasks ran" in ended.stdout
    run_cli("trace", "--out", "picture.svg")
    assert (tmp_path / "picture.svg").read_bytes().startswith(b"<svg")


def test_each_server_is_traced_after_its_last_round(tmp_path: Path, monkeypatch) -> None:
    """A failed server is restarted for its trace."""
    started: list[str] = []

    @contextlib.asynccontextmanager
    async def running(plan, case, *_):
        started.append(case.server)
        raise CaseFailedError("died", "it is not needed")
        yield

    monkeypatch.setattr("under_siege.trace.trace_run.running", running)
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    servers = ("5", "2", TESTS / "servers" / "answers_wrongly.py")
    with without_a_ceiling():
        plan = plan_of(*servers, task="sample_tasks:a_blink", rounds=2, time_s=0.3)
        make_tracer = partial(trace_run.RequestTracer, requests=3)
        result, *_ = run_plan(plan, tmp_path / "r.json", ProgressBar(9, quiet=True), [], make_tracers=[make_tracer])
    assert [one.server for one in result.traces] == [case.server for case in plan.cases]
    assert [bool(one.failure) for one in result.traces] == [False, False, True]
    assert [len(one.requests.sent_s) for one in result.traces] == [3, 3, 0]
    assert [one.workers for one in result.traces] == [1, 1, None]
    assert started == ["answers_wrongly"]


@pytest.fixture
def busy_cpus() -> Iterator[None]:
    """Run a busy process for each CPU, so that a server gets only about half of the CPU time."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(usable_cpus())]
    try:
        yield
    finally:
        for one in spinning:
            one.kill()
            one.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("busy_cpus")
def test_the_headline_does_not_say_that_tasks_ran_one_at_a_time_on_a_busy_machine(
    run_cli: RunCli, tmp_path: Path
) -> None:
    ended = run_cli("trace", "4", "--requests", "4", "--quiet", "--out", str(tmp_path / "t.json"))
    assert ended.returncode == 0, ended.stderr
    (trace,) = load(tmp_path / "t.json").traces
    assert (other_work(trace) or 0.0) > 0.25
    said = headline(timelines([trace]))
    assert "can't show whether tasks ran in parallel" in said or said.startswith("Two at once")
