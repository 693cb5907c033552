"""Measure the speed and the load of each CPU while a case runs."""

import asyncio
import contextlib
import math
import sys
import time
from collections import deque
from collections.abc import AsyncIterator

import psutil

from common.cpus import usable_cpu_numbers
from under_siege.model.record import Machine, Record
from under_siege.paths import script, server_environment
from under_siege.processes.managed_process import ManagedProcess
from under_siege.processes.process_output import reading_lines


@contextlib.asynccontextmanager
async def watching_machine(record: Record) -> AsyncIterator[None]:
    """Record what all CPUs, and this program itself, did while the body ran."""
    before, own_before_s = psutil.cpu_times(), time.process_time()
    try:
        yield
    finally:
        record.bench_cpu_s = time.process_time() - own_before_s
        record.machine = machine_between(before, psutil.cpu_times())
        record.load_average_after = psutil.getloadavg()[0]


def machine_between(before: object, after: object) -> Machine:
    """Return what the CPUs did between two readings of `psutil.cpu_times()`."""
    spent = _fields(after)
    for name, earlier_s in _fields(before).items():
        spent[name] -= earlier_s
    return Machine(
        total_s=sum(spent.values()),
        busy_s=_busy_s(spent),
        steal_s=spent.get("steal", 0.0),
        idle_s=spent.get("idle", 0.0) + spent.get("iowait", 0.0),
    )


def busy_s(times: object) -> float:
    """Return how long a CPU has worked for processes, from a reading of `psutil.cpu_times()`."""
    return _busy_s(_fields(times))


def _fields(times: object) -> dict[str, float]:
    """Return the times without guest times, which are part of user time already (proc(5))."""
    names = getattr(times, "_fields", ())
    return {name: getattr(times, name) for name in names if name not in ("guest", "guest_nice")}


def _busy_s(spent: dict[str, float]) -> float:
    """Return the busy time without interrupts, which are no process's work."""
    others = ("idle", "iowait", "steal", "irq", "softirq")
    return sum(spent.values()) - sum(spent.get(name, 0.0) for name in others)


BUSY_EVERY_S = 0.25
RECENT_S = 2.0  # how long samples are kept
SPEED_PROBE = [sys.executable, *script("cpu_speed_loop")]  # the same Python for all cases


class SpeedProbe:
    """It ticks as long as it is there: one for all cases, so that they are compared by the very same beats."""

    def __init__(self) -> None:
        self._record: Record | None = None
        self._recent: deque[tuple[float, int, float]] = deque()

    def take(self, line: str, _arrived_s: float) -> None:
        """Parse a line that it printed."""
        at_s, cpu, took_s = line.split(",")
        beat = float(at_s), int(cpu), float(took_s)
        self._recent.append(beat)
        while beat[0] - self._recent[0][0] > RECENT_S:
            self._recent.popleft()
        if self._record is not None:
            _append(self._record, beat)

    @contextlib.asynccontextmanager
    async def beside(self, record: Record, since_s: float = math.inf) -> AsyncIterator[None]:
        """Record every sample while the body runs; times are of `time.monotonic`.

        Args:
            since_s: recent ones, too, from then on.
        """
        for beat in self._recent:
            if beat[0] >= since_s:
                _append(record, beat)
        self._record = record
        looking = asyncio.create_task(_look_at_cpus(record))
        try:
            yield
        finally:
            self._record = None
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


def _append(record: Record, beat: tuple[float, int, float]) -> None:
    at_s, cpu, took_s = beat
    record.beats.at_s.append(at_s)
    record.beats.cpu.append(cpu)
    record.beats.took_s.append(took_s)


@contextlib.asynccontextmanager
async def speed_probe() -> AsyncIterator[SpeedProbe]:
    """Start the speed probe; stop it at the end."""
    process, ticking = ManagedProcess(SPEED_PROBE, environment=server_environment(), may_hide=False), SpeedProbe()
    try:
        assert process.process.stdout is not None
        with reading_lines(process.process.stdout.fileno(), ticking.take):
            yield ticking
    finally:
        await process.stop(grace_s=0)


async def _look_at_cpus(record: Record) -> None:
    columns, cpus, due_s = record.cpu_times, usable_cpu_numbers(), time.monotonic()
    while True:
        columns.at_s.append(time.monotonic())
        everything = psutil.cpu_times(percpu=True)
        for cpu in cpus:
            columns.busy_s.setdefault(cpu, []).append(round(busy_s(everything[cpu]), 2))
        due_s += BUSY_EVERY_S
        await asyncio.sleep(due_s - time.monotonic())
