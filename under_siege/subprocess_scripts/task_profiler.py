"""Profile a task without a server, and report `[name, result]` for each step, with an "error" if the step failed.

usage: python -P task_profiler.py '{"task": TASK}'
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
from common.task import TaskError, TaskRun, perform, resolve, steps
from common.task_name import UnknownTaskError
from common.workers import exit_with_server, json_lines

RUNS, ENOUGH_S = 5, 2.0  # maximum number of runs, and seconds after which no other run starts
TICK_S = 0.001
LEAST_S = 0.5  # minimum time to watch the CPUs, whose times have a resolution of 10 ms
RSS_UNIT = 1024  # getrusage(2): kilobytes

StepResult = dict[str, Any]


def main(task: str) -> None:
    """Run all steps, with the output of the task redirected to a temporary file."""
    spec, report = task, json_lines()
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 1)
        os.dup2(printed.fileno(), 2)
        forks: list[int] = []
        os.register_at_fork(after_in_parent=lambda: forks.append(1))
        machine = _Machine()
        try:
            resolve(spec)
        except UnknownTaskError as error:
            report({"error": str(error)})
            return
        alone = _step(report, "alone", lambda: _alone(spec))
        if "error" not in alone:
            processes = {"forks": len(forks), "children": len(psutil.Process().children(recursive=True))}
            _step(report, "effects", lambda: {**processes, "printed_bytes": printed.seek(0, os.SEEK_END)})
            _step(report, "again", lambda: _again(spec))
            _step(report, "yields", lambda: _yields(spec))
            _step(report, "threads", lambda: _threads(spec))
            _step(report, "machine", machine.others)
            _step(report, "process", lambda: _in_worker(spec, _once, _process_pool))
            if hasattr(futures, "InterpreterPoolExecutor"):
                _step(report, "interpreter", lambda: _in_worker(spec, perform, _interpreter_pool))
        _step(report, "done", dict)


def _step(report: Callable[[object], None], name: str, measure: Callable[[], StepResult]) -> StepResult:
    try:
        result = measure()
    except (TaskError, UnknownTaskError) as error:
        result = {"error": str(error)}
    except Exception as error:
        result = {"error": one_line(error)}
    report([name, result])
    return result


def _once(spec: str) -> TaskRun:
    """Perform the task. If the task has forked, end the child process, which also returns from `perform`."""
    own_pid = os.getpid()
    run = perform(spec)
    if os.getpid() != own_pid:
        os._exit(0)
    return run


def _alone(spec: str) -> StepResult:
    """Measure the first run, including its memory."""
    task = resolve(spec)
    before = _peak_bytes()
    run, cpu_s = _once_with_threads(spec)
    grown = max(0, _peak_bytes() - before)
    beginning = run.answer if len(run.answer) <= 60 else f"{run.answer[:57]}..."
    answer = {"answer": beginning, "answer_bytes": len(run.answer.encode())}
    return {**_times(run, cpu_s), "memory_bytes": grown, **answer, "has_cache": _has_cache(task)}


def _once_with_threads(spec: str) -> tuple[TaskRun, float]:
    """Perform the task; return the run and the CPU time of all threads, including those that the task started."""
    before_s = time.process_time()
    run = _once(spec)
    return run, max(run.cpu_s, time.process_time() - before_s)


def _has_cache(task: Callable[[], object]) -> bool:
    """Return whether the task is wrapped by `functools.cache` or `functools.lru_cache`."""
    return hasattr(getattr(task, "__wrapped__", task), "cache_info")


class _Machine:
    """The CPU time of all programs except this process and the children that it has waited for."""

    def __init__(self) -> None:
        self._before = self._now()

    def others(self) -> StepResult:
        """Return the CPU time of other programs since `__init__`, as a percentage of all CPUs."""
        time.sleep(max(0.0, LEAST_S - (time.monotonic() - self._before[0])))
        watched_s, busy_s, own_s = (now - before for now, before in zip(self._now(), self._before, strict=True))
        return {"others_pct": max(0.0, 100 * (busy_s - own_s) / (watched_s * (psutil.cpu_count() or 1)))}

    @staticmethod
    def _now() -> tuple[float, float, float]:
        all_cpus, own = psutil.cpu_times(), os.times()
        not_busy = ("idle", "iowait", "guest", "guest_nice")  # guest times are included in user and nice (proc(5))
        busy_s = sum(time_s for name, time_s in all_cpus._asdict().items() if name not in not_busy)
        return time.monotonic(), busy_s, own.user + own.system + own.children_user + own.children_system


def _peak_bytes() -> int:
    """Return the peak of resident memory since the last call, or since the start if the system can't reset the peak."""
    try:
        peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak (proc(5))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT
    return int(peak[1]) * 1024 if peak else 0


def _times(run: TaskRun, cpu_s: float) -> StepResult:
    return {"wall_s": run.finished_s - run.started_s, "cpu_s": cpu_s}


def _again(spec: str) -> StepResult:
    """Run the task several times; return the fastest run and the number of different results."""
    runs, began_s = [_once_with_threads(spec)], time.monotonic()
    while len(runs) < RUNS and time.monotonic() - began_s < ENOUGH_S:
        runs.append(_once_with_threads(spec))
    fastest = min(runs, key=lambda pair: pair[0].finished_s - pair[0].started_s)
    return {**_times(*fastest), "runs": len(runs), "answers": len({run.answer for run, _ in runs})}


def _yields(spec: str) -> StepResult:
    """Measure how often the task yields, and the longest time between two yields."""
    value = resolve(spec)()
    pauses = _Pauses()
    waits = 0
    if inspect.iscoroutine(value):
        import asyncio  # a slow import that few tasks need

        async def main() -> None:
            await steps(value, lambda begin: pauses.add_step(begin[0]))

        asyncio.run(main())
        waits = pauses.long
    elif inspect.isgenerator(value):
        began_s = time.monotonic()
        for pause_s in cast("Iterator[float | None]", value):
            pauses.add_step(began_s)
            waits += bool(pause_s)
            time.sleep(pause_s or 0.0)
            began_s = time.monotonic()
        pauses.add_step(began_s)
    else:
        return {"yields": 0}
    return {"yields": len(pauses.ran_s) - 1, "waits": waits, "longest_s": max(pauses.ran_s)}


class _Pauses:
    """How long a task runs between its pauses, and the number of long pauses, in which the task waits for something."""

    def __init__(self) -> None:
        self.ran_s: list[float] = []
        self.long, self._ended_s = 0, math.inf

    def add_step(self, began_s: float) -> None:
        """Add a step that began at that time (`time.monotonic`) and ends now."""
        self.long += began_s - self._ended_s > TICK_S
        self._ended_s = time.monotonic()
        self.ran_s.append(self._ended_s - began_s)


def _threads(spec: str) -> StepResult:
    """Compare one run of the task in a thread with two concurrent runs.

    Return the median trial, the longest delay of this thread, and the number of threads left. Because CPU speed varies,
    the time of the single run is adjusted to the speed of the two runs: it is the waiting time of the single run plus
    the mean CPU time of the two runs. Time spent waiting for a CPU does not count.
    """
    trials = list[tuple[float, float]]()
    stalled_s = 0.0
    began_s = time.monotonic()
    with futures.ThreadPoolExecutor(2) as pool:
        for _ in range(RUNS):
            run, cpu_wait_s = pool.submit(_once_in_thread, spec).result()
            two_s, each_cpu_s, waited_s = _two_at_once(spec, pool)
            blocked_s = max(0.0, run.finished_s - run.started_s - run.cpu_s - cpu_wait_s)
            trials.append((blocked_s + each_cpu_s, two_s))
            stalled_s = max(stalled_s, waited_s)
            if time.monotonic() - began_s > ENOUGH_S:
                break
    alone_s, two_s = sorted(trials, key=lambda pair: pair[1] / max(pair[0], 1e-9))[len(trials) // 2]
    left = threading.active_count() - 1
    return {"alone_s": alone_s, "two_s": two_s, "stalled_s": stalled_s, "threads_left": left}


def _once_in_thread(spec: str) -> tuple[TaskRun, float]:
    """Return a run, and how many seconds its thread waited for a CPU."""
    before_s = _cpu_wait_s()
    run = _once(spec)
    return run, _cpu_wait_s() - before_s


def _cpu_wait_s() -> float:
    """Return how long this thread has waited for a CPU (Documentation/scheduler/sched-stats.rst), or 0 if unknown."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _two_at_once(spec: str, pool: futures.Executor) -> tuple[float, float, float]:
    """Return the elapsed seconds of two concurrent runs, their mean CPU time, and the longest delay of this thread."""
    last_s, stalled_s = time.monotonic(), 0.0
    running = [pool.submit(_once_in_thread, spec), pool.submit(_once_in_thread, spec)]
    while True:
        now_s = time.monotonic()
        stalled_s, last_s = max(stalled_s, now_s - last_s - TICK_S), now_s
        if all(future.done() for future in running):
            break
        time.sleep(TICK_S)
    runs, cpu_waits_s = zip(*(future.result() for future in running), strict=True)
    took_s = max(run.finished_s for run in runs) - min(run.started_s for run in runs) - max(cpu_waits_s)
    return took_s, sum(run.cpu_s for run in runs) / len(runs), stalled_s


def _process_pool() -> futures.Executor:
    return futures.ProcessPoolExecutor(1, get_context("forkserver"), exit_with_server)


def _interpreter_pool() -> futures.Executor:
    executor: futures.Executor = futures.InterpreterPoolExecutor(1)  # type: ignore[attr-defined]
    return executor


def _in_worker(spec: str, work: Callable[[str], TaskRun], make_pool: Callable[[], futures.Executor]) -> StepResult:
    """Run the task once to start the worker, and once to measure the cost of sending the task and its result.

    A sub-interpreter runs `perform` instead of `_once`, because psutil, which this module imports, can't be loaded
    twice.
    """
    with make_pool() as pool:
        start_s = _timed(lambda: pool.submit(work, spec).result())
        began_s = time.monotonic()
        run = pool.submit(work, spec).result()
        round_trip_s = time.monotonic() - began_s
    costs_s = max(0.0, round_trip_s - (run.finished_s - run.started_s))
    return {**_times(run, run.cpu_s), "costs_s": costs_s, "start_s": start_s, "sent_bytes": len(pickle.dumps(run))}


def _timed(work: Callable[[], object]) -> float:
    began_s = time.monotonic()
    work()
    return time.monotonic() - began_s


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
