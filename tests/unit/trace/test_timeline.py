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
from under_siege.trace.timeline import Timeline, TimelinePattern, grouped, timelines
from under_siege.trace.view import heading, headline, request_sentence, summary_line


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


def told(*found: Timeline) -> list[str]:
    """Return what is said of each timeline."""
    return [f"{heading(one.pattern, [one])}. {summary_line(one)}" for one in found]


def test_the_heading_depends_on_the_trace_and_not_on_the_servers_title(golden) -> None:
    threads = drawn(in_slices(0.2, 0.6, threads=True))
    assert threads.takes_turns
    golden(*told(drawn(by_two(0.0)), drawn(by_two(1.0)), threads, drawn(in_slices())))


def test_io_bound_tasks_that_overlap_are_reported_as_parallel() -> None:
    sleeping = [[(SENT_S, SENT_S + 0.2, 0.0005)] for _ in range(4)]
    assert drawn(traced("3_t", "t", ["1/a", "1/b", "1/c", "1/d"], sleeping, 0.0)).parallelism == 4
    assert drawn(traced("1_s", "t", ["1/a"] * 4, sequential_spans(4, 0.2, cpu=0.001), 1.0)).parallelism == 1


def in_turn(cpu: float = 0.4) -> Trace:
    """Return a trace of two processes that together got 0.8 CPUs, so that their tasks seem to run one at a time."""
    ran = [one for one in sequential_spans(4, cpu=cpu) for _ in range(2)]
    return traced("4_pool", "In a process pool: every core computes.", ["1/a", "2/a"] * 4, ran, 0.0)


def test_a_trace_with_one_free_cpu_reports_that_it_cannot_show_parallel_tasks(golden) -> None:
    alone, crowded, unknown = drawn(in_turn()), drawn(beside_other_work(in_turn(), 0.5)), drawn(in_turn(cpu=0.25))
    assert [one.parallelism for one in (alone, unknown)] == [1, None]
    golden(*told(alone, crowded, unknown), headline([alone]), headline([crowded]))


@pytest.mark.parametrize(("share", "cpus"), [(0.2, 2), (0.5, 8), (0.9, 1)])
def test_other_programs_are_ignored_if_cpus_stayed_idle_or_there_is_only_one_cpu(share: float, cpus: int) -> None:
    assert told(drawn(beside_other_work(in_turn(), share, cpus))) == told(drawn(in_turn()))
    assert told(drawn(beside_other_work(by_two(0.0), 0.4))) == told(drawn(by_two(0.0)))


def test_the_headline_names_traces_that_cannot_show_parallel_tasks_unless_others_show_them(golden) -> None:
    crowded = beside_other_work(in_turn(), 0.5)
    golden(*(headline(timelines([other, crowded])) for other in (one_by_one(1.0), by_two(0.0, "8_fork"))))


def test_better_patterns_are_listed_first(result: Result, golden) -> None:
    found = grouped(timelines(result.traces))
    assert [[one.name for one in members] for _, members in found] == [
        ["4_pool"],
        ["8_fork"],
        ["5_slices"],
        ["2_loop", "3_threads"],
    ]
    failed = one_by_one(1.0)
    failed.failure = Failure("died", "it died")
    headings = (heading(*grouped([drawn(failed)])[0]), headline(timelines(result.traces)))
    golden(*headings, headline(timelines(result.traces[:2])))


def test_each_request_is_described_in_a_sentence(golden) -> None:
    golden(*(request_sentence(drawn(one_by_one(1.0)), number) for number in range(1, 9)))


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
