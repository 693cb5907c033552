"""Measure the machine during a case: its CPU usage, and its speed in a CPU loop and in baseline runs of the task."""

import asyncio
import contextlib
import math
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil

from under_siege.host.cpu_division import current_division
from under_siege.host.helper_process import Helper, helper
from under_siege.host.interpreter import Interpreter
from under_siege.host.managed_process import until
from under_siege.load.background import in_background
from under_siege.paths import script
from under_siege.record.record import Machine, Record, append_row

CPU_TIMES_EVERY_S = 0.25
KEPT_SAMPLES_S = 2.0  # seconds for which samples are kept for the next case
SPEED_PROBE = [sys.executable, *script("cpu_speed_loop")]  # the same Python for all cases
MOST_BASELINE_RUNS = 3
LATEST_RUN_S = 0.25  # no baseline run starts later than this after the first one
BUSY_PCT = 10.0  # threshold for other programs' CPU time, as a percentage of all CPUs; an idle machine uses 1 or 2
REUSABLE_RUNS_S = 1.0  # runs after a case also count as runs before the next case if they are more recent than this


@contextlib.asynccontextmanager
async def watching_machine(record: Record) -> AsyncIterator[None]:
    """Record the CPU times of the machine and of the bench while the context is active."""
    before, own_before_s = psutil.cpu_times(), time.process_time()
    try:
        yield
    finally:
        record.bench_cpu_s = time.process_time() - own_before_s
        record.machine = machine_between(before, psutil.cpu_times())
        record.load_average_after = psutil.getloadavg()[0]


def machine_between(before: object, after: object) -> Machine:
    """Return the CPU times of the machine between two readings of `psutil.cpu_times()`."""
    earlier_s = _times_s(before)
    spent_s = {name: later_s - earlier_s[name] for name, later_s in _times_s(after).items()}
    return Machine(
        total_s=sum(spent_s.values()),
        busy_s=_busy_s(spent_s),
        steal_s=spent_s.get("steal", 0.0),
        idle_s=spent_s.get("idle", 0.0) + spent_s.get("iowait", 0.0),
    )


def _times_s(times: object) -> dict[str, float]:
    """Return the times by name, without guest times, which are already part of user time (proc(5))."""
    names = getattr(times, "_fields", ())
    return {name: getattr(times, name) for name in names if name not in ("guest", "guest_nice")}


def _busy_s(times_s: dict[str, float]) -> float:
    """Return the CPU time of all processes, without interrupts, in seconds."""
    return sum(times_s.values()) - sum(times_s.get(name, 0.0) for name in ("idle", "iowait", "steal", "irq", "softirq"))


class SpeedProbe:
    """Receive the samples of one probe process that serves all cases, so that the machine's speeds can be compared."""

    def __init__(self) -> None:
        self._record: Record | None = None
        self._recent: deque[tuple[float, int, float]] = deque()

    def take(self, values: list[Any]) -> None:
        """Keep a sample that the process has reported."""
        at_s, cpu, took_s = values
        sample = at_s, cpu, took_s
        self._recent.append(sample)
        while sample[0] - self._recent[0][0] > KEPT_SAMPLES_S:
            self._recent.popleft()
        if self._record is not None:
            append_row(self._record.speed_samples, *sample)

    @contextlib.asynccontextmanager
    async def beside(self, record: Record, since_s: float = math.inf) -> AsyncIterator[None]:
        """Record the recent samples since `since_s` and, while the context is active, new samples and CPU times."""
        for sample in self._recent:
            if sample[0] >= since_s:
                append_row(record.speed_samples, *sample)
        self._record = record
        try:
            async with in_background(_record_cpu_times(record)):
                yield
        finally:
            self._record = None


@contextlib.asynccontextmanager
async def speed_probe() -> AsyncIterator[SpeedProbe]:
    """Run the speed probe while the context is active."""
    probe = SpeedProbe()
    async with helper(SPEED_PROBE, probe.take, may_hide=False):
        yield probe


async def _record_cpu_times(record: Record) -> None:
    columns = record.cpu_times
    cpus = sorted(current_division().servers)
    due_s = time.monotonic()
    while True:
        columns.at_s.append(time.monotonic())
        times = psutil.cpu_times(percpu=True)
        for cpu in cpus:
            columns.busy_s.setdefault(cpu, []).append(round(_busy_s(_times_s(times[cpu])), 2))
        due_s += CPU_TIMES_EVERY_S
        await asyncio.sleep(due_s - time.monotonic())


class LoneTaskTimer:
    """Control a process that has imported the task and runs it once for each line that it reads."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self.helper: Helper | None = None
        self._runs: list[dict[str, Any]] = []  # the first one warms up the task, and is not recorded
        self._is_lost = False  # whether the process has failed or timed out, so that it must not be used again
        self._last: list[dict[str, Any]] = []  # the previous runs
        self._last_of: Record | None = None

    def take(self, run: dict[str, Any]) -> None:
        """Note a run that the process reports."""
        self._runs.append(run)

    def fresh_since_s(self, record: Record) -> float:
        """Return the start time of recent runs made after the previous case, or infinity if there are none."""
        is_fresh = (
            self._last
            and self._last_of is not record
            and time.monotonic() - self._last[0]["started_s"] < REUSABLE_RUNS_S
        )
        return self._last[0]["started_s"] if is_fresh else math.inf

    async def perform(self, record: Record) -> None:
        """Record recent runs made after the previous case or, if there are none, make and record new ones."""
        if self.fresh_since_s(record) == math.inf:
            began_s, self._last = time.monotonic(), []
            while len(self._last) < MOST_BASELINE_RUNS:
                if self._last and time.monotonic() - began_s >= LATEST_RUN_S:
                    break
                self._is_lost = self._is_lost or not await self._run_once()
                if self._is_lost:
                    break
                self._last.append(self._runs[-1])
        self._last_of = record
        for run in self._last:
            record.alone_at_s.append(run["started_s"])
            record.alone_wall_s.append(run["wall_s"])
            record.alone_cpu_s.append(run["cpu_s"])
            record.alone_on_cpu.append(run["cpu"])

    async def _run_once(self) -> bool:
        before, helper = max(1, len(self._runs)), self.helper
        assert helper is not None
        try:
            await helper.send(b"\n")
        except OSError:  # the process has ended
            return False
        await until(lambda: len(self._runs) > before or helper.process.ended(), self._timeout_s, look_s=0.002)
        return len(self._runs) > before


@contextlib.asynccontextmanager
async def lone_task_timer(
    task: str, python: Interpreter, timeout_s: float, folder: Path | None = None
) -> AsyncIterator[LoneTaskTimer]:
    """While the context is active, keep a process that makes baseline runs of the task on request."""
    timer, command = LoneTaskTimer(timeout_s), [python.path, *script("task_runs", task=task)]
    async with helper(command, timer.take, reads_lines=True, folder=folder) as timer.helper:
        yield timer


@contextlib.asynccontextmanager
async def beside_the_machine(record: Record, probe: SpeedProbe, baseline: LoneTaskTimer | None) -> AsyncIterator[None]:
    """Record the machine's speed while the context is active; make baseline runs of the task at its start and end."""
    began_s = time.monotonic()
    async with probe.beside(record, baseline.fresh_since_s(record) if baseline else math.inf):
        if baseline:
            await baseline.perform(record)
        yield
        if baseline:
            await baseline.perform(record)
    zero_s = began_s if record.load_began_s is None else record.load_began_s
    for column in (record.speed_samples.at_s, record.cpu_times.at_s, record.alone_at_s):
        column[:] = [round(at_s - zero_s, 4) for at_s in column]
