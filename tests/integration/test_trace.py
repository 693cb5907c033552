"""bench.py trace: trace real servers, read task times from headers, and draw timelines."""

import asyncio
import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from command import CommandResult
from conftest import SUPPORT, TESTS
from plans import plan_of
from simulated_record import bare_record, record_of, result_of
from simulated_trace import beside_other_work, by_two, one_by_one, trace_of

from common.workers import usable_cpus
from under_siege.load.http_client import HttpResponse
from under_siege.measure.session import run_plan
from under_siege.record.record import CaseFailedError, Trace, load, save
from under_siege.result_output import WIDTH, Report
from under_siege.show.canvas import FILE
from under_siege.show.progress_bar import ProgressBar
from under_siege.trace import trace_run
from under_siege.trace.timeline import Bar, TaskSpan, other_work, timelines
from under_siege.trace.timeline_text import headline
from under_siege.trace.trace_run import RequestTracer, assumed_span, reported_spans

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


def test_the_height_of_a_ping_on_the_terminal_shows_its_latency() -> None:
    """Pings that wait for all tasks get lower over time; pings that do not wait have the minimum height."""
    result = result_of([])
    result.traces[:] = [one_by_one(1.0), by_two(0.0)]
    drawn = [line for line in Report(result).formatted("timeline").splitlines() if line.startswith("pings ")]
    served, stopped = ([mark for mark in line if mark in "▁▂▃▄▅▆▇█"] for line in drawn)  # the better server comes first
    assert set(served) == {"▁"}
    assert stopped == sorted(stopped, reverse=True)
    assert {"█", "▆", "▃", "▁"} <= set(stopped)


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html"])
def test_a_chart_is_written_in_the_format_given_by_the_file_suffix(suffix: str, tmp_path: Path) -> None:
    result = result_of([])
    result.traces.append(trace_of(["1/MainThread"]))
    out = tmp_path / f"picture{suffix}"
    Report(result).write_picture("timeline", out)
    begins = {".svg": b"<svg", ".png": b"\x89PNG", ".html": b"<!doctype html>"}[suffix]
    assert out.read_bytes().startswith(begins)


def test_an_unknown_suffix_of_the_output_file_causes_a_one_line_error(run_cli: RunCli) -> None:
    ended = run_cli("trace", "--out", "picture.gif")
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert ".svg" in ended.stderr


def answer(**headers: str) -> HttpResponse:
    return HttpResponse(200, b"", {name.replace("_", "-"): value for name, value in headers.items()})


def test_task_spans_within_the_request_duration_are_accepted() -> None:
    drawn = answer(x_ran="100.000000 0.00/20.00/20.00 30.00/40.00/5.00")
    assert reported_spans(drawn, 99.9, 100.1) == [
        pytest.approx((100.0, 100.02, 0.02)),
        pytest.approx((100.03, 100.04, 0.005)),
    ]


@pytest.mark.parametrize(
    "drawn",
    ["", "nonsense", "100 1/2", "90.0 0.00/20.00/20.00", "100.0 0.00/200.00/20.00", "100.0 20.00/10.00/20.00", "100"],
)
def test_malformed_task_spans_and_spans_outside_the_request_duration_are_ignored(drawn: str) -> None:
    assert reported_spans(answer(x_ran=drawn), 99.9, 100.1) == []


def test_server_timing_is_converted_to_a_span_that_ends_with_the_response() -> None:
    drawn = answer(server_timing="queue;dur=10.0, task;dur=50.0")
    assert assumed_span(drawn, 99.9, 100.1) == [(pytest.approx(100.05), 100.1, None)]
    assert assumed_span(answer(), 99.9, 100.1) == []


@pytest.mark.parametrize(
    ("workers", "names"),
    [
        (["1/MainThread"], ["thread 1"]),
        (["1/Pool_0", "1/Pool_1"], ["thread 1", "thread 2"]),
        (["1/MainThread", "2/MainThread"], ["process 1", "process 2"]),
        (["1/InterpreterPoolExecutor-0_0", "1/InterpreterPoolExecutor-0_1"], ["interpreter 1", "interpreter 2"]),
        (["1/a", "1/b", "2/a"], ["1/a", "1/b", "2/a"]),
        ([""], ["thread 1"]),
    ],
)
def test_workers_in_a_timeline_are_numbered_and_named_by_kind(workers: list[str], names: list[str]) -> None:
    assert [lane.worker for lane in timelines([trace_of(workers)])[0].lanes] == names


def test_the_cpu_share_of_an_interval_is_computed_from_the_overlapping_spans() -> None:
    bar = Bar(1, 0.0, 1.0, (TaskSpan(0.2, 0.4, 0.5), TaskSpan(0.6, 0.8, None)))
    assert bar.cpu_share_between(0.0, 0.2) == 0
    assert bar.cpu_share_between(0.2, 0.4) == pytest.approx(0.5)
    assert bar.cpu_share_between(0.5, 0.7) == pytest.approx(0.5)


def test_report_shows_saved_traces(run_cli: RunCli, tmp_path: Path) -> None:
    result = result_of([])
    result.traces.append(trace_of(["1/MainThread"]))
    save(result, tmp_path / "r.json")
    assert load(tmp_path / "r.json").traces == result.traces
    shown = run_cli("report", "r.json").stdout
    assert shown == Report(result).formatted("timeline") + "\n"
    assert "thread 1" in shown


def unreported() -> Trace:
    """Return a trace of two requests to a server that doesn't report task times."""
    trace = trace_of(["", ""])
    trace.requests.ran_s[:] = [[], []]
    return trace


def test_requests_without_reported_task_times_are_dotted_lines_on_the_terminal() -> None:
    result = result_of([])
    result.traces.append(unreported())
    shown = Report(result).formatted("timeline")
    drawn, legend = shown.split("█ computes")
    drawn = drawn.splitlines()
    assert "the server doesn't report when its tasks ran" in shown
    assert not any(mark in line for line in drawn for mark in "░▒▓█")
    assert len([line for line in drawn if "┄" * 20 in line]) == 2  # one line for each request
    assert "┄ not reported" in legend


def test_requests_without_reported_task_times_are_dotted_lines_in_charts(tmp_path: Path) -> None:
    result = result_of([])
    result.traces.append(unreported())
    Report(result).write_picture("timeline", tmp_path / "p.svg")
    drawn = (tmp_path / "p.svg").read_text()
    assert (
        ">all 2 answered after 100 ms; the server doesn't report when its tasks ran; pings took up to 1.0 ms<" in drawn
    )
    assert ">not reported<" in drawn
    marks = {name: re.search(rf'class="mark-\w+ role-mark {name}_marks".*?</g>', drawn, re.DOTALL) for name in LAYERS}
    assert {name: len(re.findall("<(?:line|path) ", found[0])) for name, found in marks.items()} == {
        "waiting": 1,  # the legend
        "computing": 1,
        "unreported": 3,
    }
    assert FILE.late not in drawn
    assert (
        timelines([unreported()])[0]
        .described()
        .startswith("x: 2 requests done after 100 ms, but the server doesn't report when")
    )


@pytest.mark.usefixtures("undrawn")
def test_the_page_explains_dotted_lines() -> None:
    result = result_of([bare_record(), record_of("1_sync")])
    result.traces.append(unreported())
    assert "A dotted line is a request to a server that doesn&#39;t report" in Report(result).formatted("html")
    result.traces[:] = [trace_of(["1/MainThread"])]
    assert "A dotted line" not in Report(result).formatted("html")


LAYERS = ("waiting", "computing", "unreported")


def test_dotted_lines_are_explained_only_if_a_timeline_contains_them() -> None:
    result = result_of([])
    result.traces.append(trace_of(["1/MainThread"]))
    assert "doesn't report" not in Report(result).formatted("timeline")
    assert not timelines(result.traces)[0].is_unreported


def test_each_server_is_traced_after_its_last_round(tmp_path: Path, monkeypatch) -> None:
    """A failed server is restarted for its trace."""
    started: list[str] = []

    @contextlib.asynccontextmanager
    async def running(plan, case, *_):
        started.append(case.server)
        raise CaseFailedError("died", "it is not needed")
        yield

    monkeypatch.setattr("under_siege.trace.trace_run.running", running)
    plan = plan_of("5", "2", TESTS / "servers" / "answers_wrongly.py", task="sign_up", rounds=2, time_s=0.5)
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


@pytest.mark.parametrize(("shares", "traces"), [([0.0], 1), ([0.9, 0.0], 2), ([0.9, 0.9], 2)], ids=str)
def test_a_trace_disturbed_by_other_programs_is_repeated_once(
    shares: list[float], traces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Trace] = []
    each = iter(shares)
    tracer = RequestTracer(plan_of("4"), None, {}, kept.append, 8)

    async def send_all(_: object, trace: Trace) -> None:
        simulated = by_two(0.0)
        trace.requests = simulated.requests
        beside_other_work(trace, next(each))

    monkeypatch.setattr(tracer, "_start_and_send_all", send_all)
    asyncio.run(tracer.trace_remaining(None, ProgressBar(1, quiet=True)))
    assert [other_work(one) for one in kept] == [pytest.approx(shares[traces - 1])]
    assert len(list(each)) == len(shares) - traces
