"""Timelines: patterns, workers, I/O waits, and the sentences about them."""

import pytest
from simulated_record import result_of
from simulated_trace import (
    SENT_S,
    beside_other_work,
    by_two,
    in_slices,
    of_all_kinds,
    one_by_one,
    pings_of,
    sequential_spans,
    trace_of,
    traced,
)

from under_siege.record.record import Failure, Trace, TracedRequests
from under_siege.record.result import Result
from under_siege.trace.timeline import (
    Timeline,
    TimelinePattern,
    grouped,
    heading,
    headline,
    request_sentence,
    summary_line,
    timelines,
)


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


@pytest.mark.parametrize(("share", "cpus"), [(0.2, 2), (0.5, 8), (0.9, 1)])
def test_other_programs_are_ignored_if_cpus_stayed_idle_or_there_is_only_one_cpu(share: float, cpus: int) -> None:
    found = drawn(beside_other_work(in_turn(), share, cpus))
    assert headline([found]) == "One at a time, but pings are quick"
    assert headline([drawn(beside_other_work(by_two(0.0), 0.4))]) == "Two at once, and pings are quick"


def test_the_headline_names_traces_that_cannot_show_parallel_tasks_unless_others_show_them() -> None:
    crowded = beside_other_work(in_turn(), 0.5)
    assert headline(timelines([one_by_one(1.0), crowded])) == f"4_pool: {CANT_SHOW}"
    assert headline(timelines([by_two(0.0, "8_fork"), crowded])).startswith("Two at once, and pings are quick: ")


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


def test_each_request_is_described_in_a_sentence(result: Result) -> None:
    told = [request_sentence(drawn(one_by_one(1.0)), number) for number in range(1, 9)]
    assert [text.split(" waited ")[0] for text in told] == [f"Request {number}" for number in range(1, 9)]
    assert "waited 50 ms for its turn on thread 1. Its task took 50 ms, without a pause, and used 50 ms" in told[1]


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
def test_workers_are_numbered_and_named_by_kind(workers: list[str], names: list[str]) -> None:
    assert [lane.worker for lane in drawn(trace_of(workers)).lanes] == names


# Pauses within a task are I/O waits or queueing

Span = tuple[float, float, float]


def pausing(*requests: tuple[str, list[Span]]) -> Trace:
    workers, ran_s = zip(*requests, strict=True)
    told = TracedRequests([0.0] * len(ran_s), [ran[-1][1] for ran in ran_s], list(workers), list(ran_s))
    pings = pings_of([0.0], [0.002])
    return Trace(server="5_asyncio", title="", values={"task": "t"}, requests=told, pings=pings)


def waits(*requests: tuple[str, list[Span]]) -> list[list[tuple[float, float]]]:
    [drawn] = timelines([pausing(*requests)])
    return [list(bar.io_waits) for bar in sorted(drawn.bars)]


PAUSING = [(0.0, 0.01, 0.001), (0.31, 0.32, 0.001)]


def test_a_pause_while_nothing_computes_is_an_io_wait() -> None:
    assert waits(("1/a", PAUSING), ("1/a", [(0.01, 0.02, 0.001), (0.32, 0.33, 0.001)])) == [
        [(0.01, 0.31)],
        [(0.02, 0.32)],
    ]


def test_a_pause_while_another_task_of_the_process_runs_is_queueing() -> None:
    assert waits(("1/a", PAUSING), ("1/a", [(0.01, 0.31, 0.3)])) == [[], []]


def test_work_in_other_processes_does_not_turn_an_io_wait_into_queueing() -> None:
    assert waits(("1/a", PAUSING), ("2/a", [(0.01, 0.31, 0.3)])) == [[(0.01, 0.31)], []]


def test_sleeping_without_yielding_is_an_io_wait() -> None:
    assert waits(("1/a", [(0.0, 0.3, 0.0)]), ("1/b", [(0.0, 0.3, 0.0)])) == [[(0.0, 0.3)], [(0.0, 0.3)]]
    assert waits(("1/a", [(0.0, 0.3, 0.0)]), ("1/b", [(0.0, 0.3, 0.3)])) == [[], []]


def test_pauses_of_cpu_bound_tasks_are_not_io_waits() -> None:
    assert waits(("1/a", [(0.0, 0.1, 0.1), (0.2, 0.3, 0.1)]), ("2/a", PAUSING)) == [[], [(0.01, 0.31)]]
