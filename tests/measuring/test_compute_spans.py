"""Compute spans, which are measured while a task runs."""

import itertools
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import SUPPORT

from common.server import task_headers
from common.task import perform


def test_the_compute_spans_of_a_cpu_bound_task_begin_and_end_with_the_task() -> None:
    run = perform("digest")
    assert run.spans[0].from_s == run.started_s
    assert run.spans[-1].to_s == run.finished_s
    assert sum(stretch.cpu_s for stretch in run.spans) == run.cpu_s


def test_waits_are_excluded_from_compute_spans() -> None:
    stretches = perform("sign_up").spans
    gaps = [after.from_s - before.to_s for before, after in itertools.pairwise(stretches)]
    assert [round(gap, 2) >= wait for gap, wait in zip(gaps, (0.02, 0.06, 0.2), strict=True)] == [True] * 3


def test_threads_under_the_gil_use_at_most_one_cpu() -> None:
    """Together, the threads use at most the time of one CPU, although their compute spans overlap."""
    together = threading.Barrier(3)

    def after_all(task: str):
        together.wait()
        return perform(task)

    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(after_all, ["primes"] * 3))
    span_s = max(run.finished_s for run in runs) - min(run.started_s for run in runs)
    assert sum(run.cpu_s for run in runs) <= 1.05 * span_s
    ran_s = sum(stretch.to_s - stretch.from_s for run in runs for stretch in run.spans)
    assert ran_s > 1.5 * span_s  # the spans overlap


def test_the_number_of_compute_spans_is_limited_and_the_spans_stay_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit keeps the headers of a response below 8 KB, the limit of many HTTP servers and clients."""
    monkeypatch.chdir(SUPPORT)
    before_s = time.thread_time()
    run = perform("sample_tasks:pauses_a_thousand_times")
    assert run.answer == "1000"
    assert 1 < len(run.spans) < 1000
    assert len(task_headers(run, run.started_s)["X-Ran"]) < 8000
    assert 0 < run.cpu_s <= time.thread_time() - before_s
    in_order = [at for stretch in run.spans for at in (stretch.from_s, stretch.to_s)]
    assert in_order == sorted(in_order)
