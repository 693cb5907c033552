"""Timelines distinguish I/O waits from queueing."""

import io

from rich.console import Console
from simulated_record import result_of

from under_siege.record.record import Pings, Trace, TracedRequests
from under_siege.trace.timeline import timelines
from under_siege.trace.timeline_text import TimelinesAsText

Stretch = tuple[float, float, float]


def trace_of(*requests: tuple[str, list[Stretch]]) -> Trace:
    workers, ran_s = zip(*requests, strict=True)
    told = TracedRequests([0.0] * len(ran_s), [ran[-1][1] for ran in ran_s], list(workers), list(ran_s))
    pings = Pings([0.0], [0.0], [0.002], [""])
    return Trace(server="5_asyncio", title="", values={"task": "t"}, requests=told, pings=pings)


def waits(*requests: tuple[str, list[Stretch]]) -> list[list[tuple[float, float]]]:
    [drawn] = timelines([trace_of(*requests)])
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


def test_io_waits_have_a_separate_mark_on_the_terminal() -> None:
    result, page = result_of([]), io.StringIO()
    result.traces.append(trace_of(("1/a", PAUSING)))
    Console(file=page, width=80, color_system=None).print(TimelinesAsText(result))
    [drawn] = [line for line in page.getvalue().splitlines() if line.startswith("thread 1")]
    assert drawn.count("·") > 40
    assert drawn.count("░") <= 4  # the compute spans are very short
    assert max(map(len, page.getvalue().splitlines())) <= 80
    assert "· waits for something other than a core" in page.getvalue()
