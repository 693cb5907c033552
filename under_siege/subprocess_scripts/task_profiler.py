"""Profile a task without a server, and print a line of JSON for each step.

usage: python -P task_profiler.py TASK        a step that can't be done has an "error" of one line
"""

import inspect
import json
import math
import os
import pickle
import re
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import psutil

from common.errors import one_line
from common.parent_watch import follow_server
from common.process_tree import descendants
from common.task import BadCallError, TaskError, TaskRun, UnknownTaskError, as_text, perform, resolve

RUNS, ENOUGH_S = 5, 2.0  # again, so often or for so long
TICK_S = 0.001
LEAST_S = 0.5  # that the machine is watched: its CPUs are counted in steps of 10 ms
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage(2): bytes there, kilobytes elsewhere

Found = dict[str, Any]


def main(spec: str) -> None:
    """Run all steps; keep apart what the task itself prints."""
    report = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        forks: list[int] = []
        os.register_at_fork(after_in_parent=lambda: forks.append(1))
        machine = _Machine()
        alone = _step(report, "alone", lambda: _alone(spec))
        report.flush()
        if "error" not in alone:
            side = {"forks": len(forks), "children": len(descendants(os.getpid()))}
            _step(report, "effects", lambda: {**side, "printed_bytes": printed.seek(0, os.SEEK_END)})
            _step(report, "again", lambda: _again(spec))
            _step(report, "yields", lambda: _yields(spec))
            _step(report, "threads", lambda: _threads(spec))
            _step(report, "machine", machine.others)
            _step(report, "process", lambda: _elsewhere(spec, _once, _processes))
            if hasattr(futures, "InterpreterPoolExecutor"):
                _step(report, "interpreter", lambda: _elsewhere(spec, perform, _interpreters))
        _step(report, "done", dict)


def _step(report: Any, name: str, found: Callable[[], Found]) -> Found:
    try:
        result = found()
    except BadCallError as error:
        result = {"error": str(error), "bad_call": True}
    except (UnknownTaskError, TaskError) as error:
        result = {"error": str(error)}
    except Exception as error:
        result = {"error": one_line(error)}
    report.write(json.dumps({"step": name, **result}) + "\n")
    report.flush()
    return result


def _once(spec: str) -> TaskRun:
    """Perform the task; a child that it forked and did not end must not go on with our work."""
    us = os.getpid()
    run = perform(spec)
    if os.getpid() != us:
        os._exit(0)
    return run


def _alone(spec: str) -> Found:
    """Measure the first run, with its memory."""
    task = resolve(spec)
    before = _peak_bytes()
    run, cpu_s = _once_with_threads(spec)
    grown = max(0, _peak_bytes() - before)
    shown = run.answer if len(run.answer) <= 60 else f"{run.answer[:57]}..."
    answer = {"answer": shown, "answer_bytes": len(run.answer.encode())}
    return {**_times(run, cpu_s), "memory_bytes": grown, **answer, "has_cache": _has_cache(task)}


def _once_with_threads(spec: str) -> tuple[TaskRun, float]:
    """Perform the task; return the run and the CPU time of all threads: a task may have some of its own."""
    before_s = time.process_time()
    run = _once(spec)
    return run, max(run.cpu_s, time.process_time() - before_s)


def _has_cache(task: Callable[[], object]) -> bool:
    """Return whether it is wrapped by `functools.cache` or `functools.lru_cache`."""
    return hasattr(getattr(task, "function", task), "cache_info")


class _Machine:
    """What others compute beside this process and the children that it has waited for."""

    def __init__(self) -> None:
        self._before = self._now()

    def others(self) -> Found:
        """Return the CPU time of others as a share of all CPUs, since the beginning."""
        time.sleep(max(0.0, LEAST_S - (time.monotonic() - self._before[0])))
        watched_s, busy_s, own_s = (now - before for now, before in zip(self._now(), self._before, strict=True))
        return {"others_pct": max(0.0, 100 * (busy_s - own_s) / (watched_s * (psutil.cpu_count() or 1)))}

    @staticmethod
    def _now() -> tuple[float, float, float]:
        all_cpus, own = psutil.cpu_times(), os.times()
        resting = ("idle", "iowait", "guest", "guest_nice")  # guests are part of user and nice (proc(5))
        busy_s = sum(spent for name, spent in all_cpus._asdict().items() if name not in resting)
        return time.monotonic(), busy_s, own.user + own.system + own.children_user + own.children_system


def _peak_bytes() -> int:
    """Return the peak of resident memory since the last call, or ever if the system can't tell that."""
    try:
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        Path("/proc/self/clear_refs").write_text("5")  # proc(5): begins anew
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT
    return int(peak[1]) * 1024 if peak else 0


def _times(run: TaskRun, cpu_s: float) -> Found:
    return {"wall_s": run.finished_s - run.started_s, "cpu_s": cpu_s}


def _again(spec: str) -> Found:
    """Repeat the run; return the fastest, and the number of different answers."""
    runs, began_s = [_once_with_threads(spec)], time.monotonic()
    while len(runs) < RUNS and time.monotonic() - began_s < ENOUGH_S:
        runs.append(_once_with_threads(spec))
    fastest = min(runs, key=lambda one: one[0].finished_s - one[0].started_s)
    return {**_times(*fastest), "runs": len(runs), "answers": len({run.answer for run, _ in runs})}


def _yields(spec: str) -> Found:
    """Measure how often it yields, and the longest time that it does not."""
    made, pauses, waits = resolve(spec)(), _Pauses(), 0
    if inspect.iscoroutine(made):
        import asyncio  # which takes longer than all else here, and few tasks need it

        from common.task.coroutine import on_this_loop

        asyncio.run(on_this_loop(as_text(made), pauses))
        waits = pauses.long
    elif inspect.isgenerator(made):
        pauses.start()
        for pause_s in cast("Iterator[float | None]", made):
            pauses.stop()
            waits += bool(pause_s)
            time.sleep(pause_s or 0.0)
            pauses.start()
        pauses.stop()
    else:
        return {"yields": 0}
    return {"yields": len(pauses.ran_s) - 1, "waits": waits, "longest_s": max(pauses.ran_s)}


class _Pauses:
    """How long it ran between its pauses, and how many of these were long, as they are where it waits."""

    def __init__(self) -> None:
        self.ran_s: list[float] = []
        self.long, self._at_s = 0, math.inf

    def start(self) -> None:
        now_s = time.monotonic()
        self.long += now_s - self._at_s > TICK_S
        self._at_s = now_s

    def stop(self) -> None:
        now_s = time.monotonic()
        self.ran_s.append(now_s - self._at_s)
        self._at_s = now_s


def _threads(spec: str) -> Found:
    """Run one and then two at once in threads, a few times; return the median try, and the longest wait of a third one.

    CPUs change their speed from one moment to the next, so one alone takes what it would have at the speed of the two:
    it waits as long as it did, and computes as long as each of them. What threads wait for a CPU doesn't count.
    """
    tries, stalled_s, began_s = list[tuple[float, float]](), 0.0, time.monotonic()
    with futures.ThreadPoolExecutor(2) as pool:
        for _ in range(RUNS):
            run, cpu_wait_s = pool.submit(_once_in_thread, spec).result()
            two_s, each_cpu_s, waited_s = _two_at_once(spec, pool)
            blocked_s = max(0.0, run.finished_s - run.started_s - run.cpu_s - cpu_wait_s)
            tries.append((blocked_s + each_cpu_s, two_s))
            stalled_s = max(stalled_s, waited_s)
            if time.monotonic() - began_s > ENOUGH_S:
                break
    alone_s, two_s = sorted(tries, key=lambda one: one[1] / max(one[0], 1e-9))[len(tries) // 2]
    left = threading.active_count() - 1
    return {"alone_s": alone_s, "two_s": two_s, "stalled_s": stalled_s, "threads_left": left}


def _once_in_thread(spec: str) -> tuple[TaskRun, float]:
    """Return a run, and for how many seconds this thread was ready meanwhile and waited for a CPU."""
    before_s = _cpu_wait_s()
    run = _once(spec)
    return run, _cpu_wait_s() - before_s


def _cpu_wait_s() -> float:
    """Return for how long this thread has waited for a CPU (Documentation/scheduler/sched-stats.rst); 0 if unknown."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _two_at_once(spec: str, pool: futures.Executor) -> tuple[float, float, float]:
    """Return how long both took together, how long each computed, and how long this thread was kept from running."""
    last_s, stalled_s = time.monotonic(), 0.0
    running = [pool.submit(_once_in_thread, spec), pool.submit(_once_in_thread, spec)]
    while True:
        now_s = time.monotonic()
        stalled_s, last_s = max(stalled_s, now_s - last_s - TICK_S), now_s
        if all(one.done() for one in running):
            break
        time.sleep(TICK_S)
    runs, cpu_waits_s = zip(*(one.result() for one in running), strict=True)
    took_s = max(run.finished_s for run in runs) - min(run.started_s for run in runs) - max(cpu_waits_s)
    return took_s, sum(run.cpu_s for run in runs) / len(runs), stalled_s


def _processes() -> futures.Executor:
    return futures.ProcessPoolExecutor(1, get_context("forkserver"), follow_server)


def _interpreters() -> futures.Executor:
    executor: futures.Executor = futures.InterpreterPoolExecutor(1)  # type: ignore[attr-defined]
    return executor


def _elsewhere(spec: str, work: Callable[[str], TaskRun], made: Callable[[], futures.Executor]) -> Found:
    """Run once to start the worker, once to measure the cost of sending there and back.

    A sub-interpreter gets `perform`, because importing this module there fails: psutil can't be loaded twice.
    """
    with made() as pool:
        start_s = _timed(lambda: pool.submit(work, spec).result())
        began_s = time.monotonic()
        run = pool.submit(work, spec).result()
        there_s = time.monotonic() - began_s
    costs_s = max(0.0, there_s - (run.finished_s - run.started_s))
    return {**_times(run, run.cpu_s), "costs_s": costs_s, "start_s": start_s, "sent_bytes": len(pickle.dumps(run))}


def _timed(work: Callable[[], object]) -> float:
    began_s = time.monotonic()
    work()
    return time.monotonic() - began_s


if __name__ == "__main__":
    main(sys.argv[1])
