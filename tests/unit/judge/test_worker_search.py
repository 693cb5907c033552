"""The search for the best number of workers and threads, with servers whose rates are known."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from simulated_record import record_of, result_of

from under_siege.judge.ranking import summarize
from under_siege.judge.worker_search import candidates, wanted
from under_siege.record.case import Case, case_of
from under_siege.record.record import OUT_OF_MEMORY, Failure
from under_siege.record.result import Result
from under_siege.run.conclusion import answers

SEARCHED = ("workers", "threads")
CASES = [
    case_of("gthread", {"path": "/", "users": 16, "python": "3.11.7", "workers": workers, "threads": threads})
    for workers, threads in itertools.product(candidates("workers", 2), candidates("threads", 2))
]


def searched(
    tasks_at_once: Callable[[int, int], int], most: int = 16, fails: Callable[[int, bool], bool] = lambda *_: False
) -> Result:
    """Return the result of a search on a server that performs this many tasks at once with workers and threads.

    Args:
        most: the highest number of workers that fits into the memory.
        fails: whether this number of workers does not start, given whether it is tried again.
    """
    records: list[Any] = []
    for round_ in range(1, 11):
        cases = wanted(CASES, SEARCHED, result_of(records)).cases
        if not cases:
            break
        for case in cases:
            workers, threads = int(case.get("workers") or 0), int(case.get("threads") or 0)
            failure = None if workers <= most else Failure(OUT_OF_MEMORY, "out of memory")
            if fails(workers, any(record.values == dict(case.values) for record in records)):
                failure = NOT_READY
            record = record_of(
                "gthread", round_, workers=tasks_at_once(workers, threads), values=dict(case.values), failure=failure
            )
            record.machine, record.has_ceiling, record.has_task = None, False, False
            record.samples.memory_bytes[:] = [workers * 25_000_000 + threads * 100_000] * len(record.samples.at_s)
            records.append(record)
    return result_of(records)


def recommended(result: Result) -> Case:
    (answer,) = answers(summarize(result))
    assert answer.case is not None, answer.headline
    return answer.case


@pytest.mark.parametrize(
    ("tasks_at_once", "most", "best"),
    [
        (lambda *_: 1, 16, (1, 2)),  # CPU-bound, with one CPU
        (lambda workers, _: min(2, workers), 16, (2, 2)),  # CPU-bound, with two CPUs
        (lambda workers, _: workers, 16, (16, 2)),  # a wait that blocks all threads
        (lambda workers, threads: min(16, workers * threads), 16, (1, 32)),  # a wait in threads
        (lambda workers, _: workers, 4, (4, 2)),  # limited by memory
    ],
)
def test_the_search_finds_the_number_of_workers_and_threads_that_a_service_needs(
    tasks_at_once: Callable[[int, int], int], most: int, best: tuple[int, int]
) -> None:
    case = recommended(searched(tasks_at_once, most))
    assert (case.get("workers"), case.get("threads")) == best


def test_settings_that_cannot_be_better_are_not_measured() -> None:
    measured = {(record.values["workers"], record.values["threads"]) for record in searched(lambda *_: 1).records}
    assert measured == {(1, 2), (2, 2), (1, 8)}


NOT_READY = Failure("not_ready", "not ready within 10 s")


def test_a_start_that_failed_is_tried_again_once_and_its_second_try_counts() -> None:
    once = searched(lambda workers, _: workers, fails=lambda workers, is_again: workers == 2 and not is_again)
    rounds = [record.failure for record in once.records if record.values["workers"] == 2]
    assert rounds.count(NOT_READY) == len({record.values["threads"] for record in once.records})
    assert recommended(once).get("workers") == 16
    twice = searched(lambda workers, _: workers, fails=lambda workers, _: workers == 2)
    tried = [(record.values["workers"], record.values["threads"]) for record in twice.records]
    assert tried.count((2, 2)) == 2


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_the_search_passes_over_a_number_of_workers_that_never_starts(workers: int) -> None:
    result = searched(lambda workers, _: workers, fails=lambda count, _: count == workers)
    assert recommended(result).get("workers") == 16
    result = searched(lambda *_: 1, fails=lambda count, _: count == workers)
    assert max(int(record.values["workers"]) for record in result.records) <= 2 * max(2, workers)


def test_a_search_ends_if_nothing_starts() -> None:
    result = searched(lambda *_: 1, fails=lambda *_: True)
    tried = [(record.values["workers"], record.values["threads"]) for record in result.records]
    assert sorted(tried) == sorted([(1, 2), (2, 2), (1, 8)] * 2)


def test_nothing_is_measured_with_more_workers_than_fit_into_the_memory() -> None:
    result = searched(lambda workers, threads: workers * threads, 2)
    assert max(int(record.values["workers"]) for record in result.records) == 4
