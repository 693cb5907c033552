"""Compute spans, which are measured while a task runs."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import SUPPORT

from common.server import task_headers
from common.task import TaskRun, perform


@pytest.fixture
def pauses_at_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the pauses of tasks; return the list of the times at which they would begin."""
    at_s: list[float] = []
    monkeypatch.setattr("time.sleep", lambda _: at_s.append(time.monotonic()))
    return at_s


def test_the_compute_spans_of_a_cpu_bound_task_begin_and_end_with_the_task() -> None:
    run = perform("digest")
    assert run.spans[0].from_s == run.started_s
    assert run.spans[-1].to_s == run.finished_s
    assert sum(span.cpu_s for span in run.spans) == run.cpu_s


def test_waits_are_excluded_from_compute_spans(pauses_at_s: list[float]) -> None:
    spans = perform("sign_up").spans
    assert len(pauses_at_s) == 3
    for (before, after), at_s in zip(itertools.pairwise(spans), pauses_at_s, strict=True):
        assert before.to_s <= at_s <= after.from_s


def test_the_cpu_time_of_a_task_excludes_that_of_other_threads() -> None:
    """Threads under the GIL use at most one CPU together, although their compute spans overlap."""
    together = threading.Barrier(3)

    def after_all(task: str) -> TaskRun:
        together.wait()
        return perform(task)

    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(after_all, ["primes"] * 3))
    span_s = max(run.finished_s for run in runs) - min(run.started_s for run in runs)
    assert sum(run.cpu_s for run in runs) <= 1.05 * span_s


def test_the_number_of_compute_spans_is_limited_and_the_spans_stay_in_order(pauses_at_s, monkeypatch) -> None:
    """The limit keeps the headers of a response below 8 KB, the limit of many HTTP servers and clients."""
    monkeypatch.chdir(SUPPORT)
    before_s = time.thread_time()
    run = perform("sample_tasks:pauses_a_thousand_times")
    assert (run.answer, len(pauses_at_s)) == ("1000", 1000)
    assert 1 < len(run.spans) < 1000
    assert len(task_headers(run, run.started_s)["X-Ran"]) < 8000
    assert 0 < run.cpu_s <= time.thread_time() - before_s
    in_order = [at_s for span in run.spans for at_s in (span.from_s, span.to_s)]
    assert in_order == sorted(in_order)
