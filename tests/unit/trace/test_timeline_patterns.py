"""Patterns and texts of timelines, computed from requests and pings."""

from pathlib import Path

import msgspec
import pytest
from command import invoke
from conftest import TESTS
from simulated_record import result_of
from simulated_trace import (
    SENT_S,
    beside_other_work,
    by_two,
    in_slices,
    of_all_kinds,
    one_by_one,
    sequential_spans,
    traced,
)

from under_siege.record.record import Failure, Result, Trace, load, save
from under_siege.result_output import Report
from under_siege.trace.timeline import (
    Timeline,
    TimelinePattern,
    grouped,
    other_work,
    timelines,
)
from under_siege.trace.timeline_text import heading, headline, request_sentence, summary_line


def drawn(trace: Trace) -> Timeline:
    return timelines([trace])[0]


@pytest.fixture
def result() -> Result:
    return of_all_kinds(result_of([]))


KINDS = {
    "two at once, quick pings": (by_two(0.0), TimelinePattern(is_parallel=True, is_stuck=False)),
    "two at once, queued pings": (by_two(1.0), TimelinePattern(is_parallel=True, is_stuck=True)),
    "slices": (in_slices(), TimelinePattern(is_parallel=False, is_stuck=False)),
    "threads under the GIL": (in_slices(0.2, 0.6, threads=True), TimelinePattern(is_parallel=False, is_stuck=True)),
    "one at a time": (one_by_one(1.0), TimelinePattern(is_parallel=False, is_stuck=True)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_requests_and_pings_determine_the_pattern_of_a_timeline(kind: str) -> None:
    trace, expected = KINDS[kind]
    trace.server, trace.title = "4_async_processexecutor", "In a process pool: every core computes, pings are quick."
    assert drawn(trace).pattern == expected


def test_the_heading_depends_on_the_trace_and_not_on_the_servers_title() -> None:
    quick, stuck = drawn(by_two(0.0)), drawn(by_two(1.0))
    assert heading(quick.pattern, [quick]) == "Two at once, and pings are quick"
    assert heading(stuck.pattern, [stuck]) == "Two at once, but pings queue with the tasks"
    assert "pings took up to 202 ms" in summary_line(stuck)


def test_responses_sent_late_and_tasks_that_take_turns_are_reported() -> None:
    threads = drawn(in_slices(0.2, 0.6, threads=True))
    assert threads.takes_turns
    assert "tasks take turns; a response was ready 200 ms before it was sent" in summary_line(threads)
    assert "ready" not in summary_line(drawn(in_slices()))


def test_io_bound_tasks_that_overlap_are_reported_as_parallel() -> None:
    sleeping = [[(SENT_S, SENT_S + 0.2, 0.0005)] for _ in range(4)]
    assert drawn(traced("3_t", "t", ["1/a", "1/b", "1/c", "1/d"], sleeping, 0.0)).parallelism == 4
    assert drawn(traced("1_s", "t", ["1/a"] * 4, sequential_spans(4, 0.2, cpu=0.001), 1.0)).parallelism == 1


def test_parallelism_is_unknown_if_other_programs_used_the_cores() -> None:
    trace = traced(
        "4_p", "t", ["1/a", "2/a"] * 4, [one for one in sequential_spans(4, cpu=0.25) for _ in range(2)], 0.0
    )
    found = drawn(trace)
    assert found.parallelism is None
    assert "Unknown whether tasks ran in parallel" in heading(found.pattern, [found])
    assert "other programs used the cores" in summary_line(found)


def in_turn(server: str = "4_pool") -> Trace:
    """Return a trace of two processes that together got 0.8 CPUs, so that their tasks seem to run one at a time."""
    ran = [one for one in sequential_spans(4, cpu=0.4) for _ in range(2)]
    return traced(server, "In a process pool: every core computes.", ["1/a", "2/a"] * 4, ran, 0.0)


CANT_SHOW = "other programs used 50 % of the CPUs, so this trace can't show whether tasks ran in parallel"


def test_a_trace_with_one_free_cpu_reports_that_it_cannot_show_parallel_tasks() -> None:
    alone, crowded = drawn(in_turn()), drawn(beside_other_work(in_turn(), 0.5))
    assert headline([alone]) == "One at a time, but pings are quick"
    assert headline([crowded]) == f"4_pool: {CANT_SHOW}"
    assert heading(crowded.pattern, [crowded]) == CANT_SHOW.capitalize().replace("cpus", "CPUs")
    assert CANT_SHOW in summary_line(crowded)
    text = Report(result_with(beside_other_work(in_turn(), 0.5))).formatted("timeline")
    assert CANT_SHOW[1:] in " ".join(text.split())


def result_with(*traces: Trace) -> Result:
    one = result_of([])
    one.traces.extend(traces)
    return one


@pytest.mark.parametrize(("share", "cpus"), [(0.2, 2), (0.5, 8), (0.9, 1)])
def test_other_programs_are_ignored_if_cpus_stayed_idle_or_there_is_only_one_cpu(share: float, cpus: int) -> None:
    found = drawn(beside_other_work(in_turn(), share, cpus))
    assert headline([found]) == "One at a time, but pings are quick"


def test_patterns_visible_despite_the_cpu_use_of_other_programs_are_reported() -> None:
    assert headline([drawn(beside_other_work(by_two(0.0), 0.4))]) == "Two at once, and pings are quick"
    one = drawn(beside_other_work(one_by_one(1.0), 0.5))
    assert headline([one]) == "One at a time, and pings wait until all are done"


def test_the_headline_names_traces_that_cannot_show_parallel_tasks_unless_others_show_them() -> None:
    crowded = beside_other_work(in_turn(), 0.5)
    assert headline(timelines([one_by_one(1.0), crowded])) == f"4_pool: {CANT_SHOW}"
    assert headline(timelines([by_two(0.0, "8_fork"), crowded])).startswith("Two at once, and pings are quick: ")


def test_the_cpu_use_of_other_programs_during_a_trace_is_saved(tmp_path: Path) -> None:
    trace = beside_other_work(in_turn(), 0.5)
    trace.machine = msgspec.structs.replace(trace.machine, steal_s=0.1 * trace.machine.total_s)
    save(result_with(trace), tmp_path / "r.json")
    assert other_work(load(tmp_path / "r.json").traces[0]) == pytest.approx(0.6)
    assert other_work(load(TESTS / "data" / "schema-5.json").traces[0]) is None


def test_better_patterns_are_listed_first(result: Result) -> None:
    found = grouped(timelines(result.traces))
    assert [[one.name for one in members] for _, members in found] == [
        ["4_pool"],
        ["8_fork"],
        ["5_slices"],
        ["2_loop", "3_threads"],
    ]
    failed = one_by_one(1.0)
    failed.failure = Failure("died", "it died")
    assert heading(*grouped([drawn(failed)])[0]) == "Failed"


def test_the_headline_names_the_best_pattern_and_its_servers(result: Result) -> None:
    assert headline(timelines(result.traces)) == "Two at once, and pings are quick: process pool (4)"
    assert headline(timelines(result.traces[:2])) == "One at a time, and pings wait until all are done"


def test_the_terminal_output_groups_timelines_by_pattern_and_lists_missing_strategies(result: Result) -> None:
    shown = Report(result).formatted("timeline")
    places = [
        shown.index(text)
        for text in ("Two at once, and", "Two at once, but", "One at a time, but", "One at a time, and")
    ]
    assert places == sorted(places)
    assert "thread" in shown
    assert "sub-interpreters · 7_sub is not drawn: it needs Python 3.14 or later" in shown
    assert shown.splitlines()[-1] == "primes · Python 3.11.7 · 8 requests at the same moment · 2 cores"
    lines = shown.splitlines()
    threads = lines[lines.index("threads · 3_threads") :]
    assert any("=====" in line for line in threads), "computed but unsent responses have their own mark"
    assert "=" not in "".join(lines[: lines.index("threads · 3_threads")])


def test_each_request_is_described_in_a_sentence(result: Result) -> None:
    told = [request_sentence(drawn(one_by_one(1.0)), number) for number in range(1, 9)]
    assert [text.split(" waited ")[0] for text in told] == [f"Request {number}" for number in range(1, 9)]
    assert "waited 50 ms for its turn on thread 1. Its task took 50 ms, without a pause, and used 50 ms" in told[1]


@pytest.mark.parametrize("side_by_side", [False, True])
def test_trace_with_step_prints_all_requests_if_stdout_is_not_a_terminal(
    side_by_side: bool, result: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    from under_siege.result_output import Report

    result.traces[:] = [one_by_one(1.0), by_two(0.0)]
    Report(result).show_traces(None, side_by_side=side_by_side, step=True)
    shown = capsys.readouterr().out
    assert shown.count("Request 8 waited ") == 2
    first, second = shown.index("Request 1 waited"), shown.index("Request 2 waited")
    assert "Request 1 waited" in shown[first + 1 : second] if side_by_side else "8 waited" not in shown[:second]
    assert " 8\n" not in shown[:second], "later requests are not drawn yet"


def test_traces_side_by_side_are_drawn_in_one_chart(result: Result, tmp_path) -> None:
    from under_siege.result_output import Report

    result.traces[:] = [one_by_one(1.0), by_two(0.0)]
    Report(result).show_traces(tmp_path / "p.svg", side_by_side=True)
    text = (tmp_path / "p.svg").read_text()
    for said in ("One at a time, and pings wait until all are done", "Two at once, and pings are quick"):
        assert f">{said}<" in text


def test_the_options_side_by_side_and_step_are_in_the_help_of_trace() -> None:
    told = invoke("trace", "--help").stdout
    assert "--side-by-side" in told
    assert "--step" in told
