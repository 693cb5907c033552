"""What `trace` shows, on a terminal and on a page, and how it reads the times that servers report."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from command import CommandResult
from plans import plan_of, session_of
from rich.console import Console
from simulated_record import record_of, result_of
from simulated_trace import beside_other_work, by_two, of_all_kinds, one_by_one, pings_of, trace_of

from under_siege.load.http_client import HttpResponse
from under_siege.record.record import Trace, TracedRequests
from under_siege.record.result import Result, load, save
from under_siege.show.chart_file import write_chart
from under_siege.show.formats.table import renderable, rendered
from under_siege.trace.command import show_steps
from under_siege.trace.timeline import other_work
from under_siege.trace.trace_run import RequestTracer, assumed_span, reported_spans
from under_siege.trace.view import figure, view


def result_with(*traces: Trace) -> Result:
    result = result_of([])
    result.traces.extend(traces)
    return result


def test_a_terminal_groups_timelines_by_pattern_and_lists_missing_strategies(golden) -> None:
    """The heights of pings show their latencies, and computed but unsent responses have their own mark."""
    golden(rendered(view(of_all_kinds(result_of([])))))


def test_io_waits_have_their_own_mark_and_no_line_is_wider_than_the_terminal() -> None:
    requests = TracedRequests([0.0], [0.32], ["1/a"], [[(0.0, 0.01, 0.001), (0.31, 0.32, 0.001)]])
    pings = pings_of([0.0], [0.002])
    trace = Trace(server="5_asyncio", title="", values={"task": "t"}, requests=requests, pings=pings)
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        console.print(renderable(view(result_with(trace))))
    (bar,) = [line for line in captured.get().splitlines() if line.startswith("thread 1")]
    assert bar.count("·") > 40
    assert bar.count("░") <= 4  # the compute spans are very short
    assert max(map(len, captured.get().splitlines())) <= 80


def unreported() -> Trace:
    """Return a trace of two requests to a server that doesn't report task times."""
    trace = trace_of(["", ""])
    trace.requests.ran_s[:] = [[], []]
    return trace


def test_requests_without_reported_task_times_are_dotted_lines_with_an_explanation(golden) -> None:
    result = result_with(unreported())
    golden(rendered(view(result)), figure(result).how, figure(result_with(by_two(0.0))).how)


@pytest.mark.parametrize("side_by_side", [False, True])
def test_trace_with_step_prints_all_requests_if_stdout_is_not_a_terminal(
    side_by_side: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    show_steps(result_with(one_by_one(1.0), by_two(0.0)), side_by_side=side_by_side)
    shown = capsys.readouterr().out
    assert shown.count("Request 8 waited ") == 2
    first, second = shown.index("Request 1 waited"), shown.index("Request 2 waited")
    assert "Request 1 waited" in shown[first + 1 : second] if side_by_side else "8 waited" not in shown[:second]
    assert " 8\n" not in shown[:second], "later requests are not drawn yet"


@pytest.mark.parametrize(("suffix", "begins"), [(".svg", b"<svg"), (".png", b"\x89PNG"), (".html", b"<!doctype html>")])
def test_the_file_suffix_determines_the_format_of_a_chart(
    suffix: str, begins: bytes, tmp_path: Path, undrawn: None
) -> None:
    out = tmp_path / f"picture{suffix}"
    result = result_with(one_by_one(1.0), by_two(0.0))
    write_chart(result, view(result, side_by_side=True), "timeline", out)
    assert out.read_bytes().startswith(begins)


def test_report_shows_saved_traces(run_cli: Callable[..., CommandResult], tmp_path: Path) -> None:
    result = result_with(trace_of(["1/MainThread"]))
    save(result, tmp_path / "r.json")
    assert load(tmp_path / "r.json").traces == result.traces
    assert run_cli("report", "r.json", "--format", "timeline").stdout == f"{rendered(view(result))}\n"
    save(result_of([record_of("1_sync")]), tmp_path / "r.json")
    assert "--trace" in run_cli("report", "r.json", "--format", "timeline").stdout


def test_an_unknown_suffix_of_the_output_file_causes_a_one_line_error(run_cli: Callable[..., CommandResult]) -> None:
    ended = run_cli("trace", "--out", "picture.gif")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert ".svg" in ended.stderr


# Times that servers report


def answer(**headers: str) -> HttpResponse:
    return HttpResponse(200, b"", {name.replace("_", "-"): value for name, value in headers.items()})


def test_task_spans_within_the_request_duration_are_accepted() -> None:
    reported = answer(x_ran="100.000000 0.00/20.00/20.00 30.00/40.00/5.00")
    expected = [(100.0, 100.02, 0.02), (100.03, 100.04, 0.005)]
    assert reported_spans(reported, 99.9, 100.1) == list(map(pytest.approx, expected))


@pytest.mark.parametrize(
    "reported",
    ["", "nonsense", "100 1/2", "90.0 0.00/20.00/20.00", "100.0 0.00/200.00/20.00", "100.0 20.00/10.00/20.00", "100"],
)
def test_malformed_task_spans_and_spans_outside_the_request_duration_are_ignored(reported: str) -> None:
    assert reported_spans(answer(x_ran=reported), 99.9, 100.1) == []


def test_server_timing_is_converted_to_a_span_that_ends_with_the_response() -> None:
    reported = answer(server_timing="queue;dur=10.0, task;dur=50.0")
    assert assumed_span(reported, 99.9, 100.1) == [(pytest.approx(100.05), 100.1, None)]
    assert assumed_span(answer(), 99.9, 100.1) == []


@pytest.mark.parametrize(("shares", "traces"), [([0.0], 1), ([0.9, 0.0], 2), ([0.9, 0.9], 2)], ids=str)
def test_a_trace_disturbed_by_other_programs_is_repeated_once(
    shares: list[float], traces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Trace] = []
    each = iter(shares)
    tracer = RequestTracer(session_of(plan_of("4"), kept.append), 8)

    async def send_all(trace: Trace) -> None:
        trace.requests = by_two(0.0).requests
        beside_other_work(trace, next(each))

    monkeypatch.setattr(tracer, "_start_and_send_all", send_all)
    asyncio.run(tracer.trace_remaining())
    assert [other_work(one) for one in kept] == [pytest.approx(shares[traces - 1])]
    assert len(list(each)) == len(shares) - traces
