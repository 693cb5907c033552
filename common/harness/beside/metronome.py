"""The metronome beside a case: how fast each CPU is from moment to moment, and how busy."""

import asyncio
import contextlib
import math
import sys
import time
from collections import deque
from collections.abc import AsyncIterator

import psutil

from common.cpus import usable_cpu_numbers
from common.harness.beside.machine import busy_s
from common.harness.lines import reading_lines
from common.harness.ours import server_environment
from common.harness.processes import Started
from common.model.record import Record

BUSY_EVERY_S = 0.25
RECENT_S = 2.0  # beats are remembered
METRONOME = [sys.executable, "-P", "-m", "common.alone.metronome"]  # the same Python for all cases


class Metronome:
    """It ticks as long as it is there: one for all cases, so that they are compared by the very same beats."""

    def __init__(self) -> None:
        self._record: Record | None = None
        self._recent: deque[tuple[float, int, float]] = deque()

    def take(self, line: str, _arrived_s: float) -> None:
        """A line that it printed."""
        at_s, cpu, took_s = line.split(",")
        beat = float(at_s), int(cpu), float(took_s)
        self._recent.append(beat)
        while beat[0] - self._recent[0][0] > RECENT_S:
            self._recent.popleft()
        if self._record is not None:
            _append(self._record, beat)

    @contextlib.asynccontextmanager
    async def beside(self, record: Record, since_s: float = math.inf) -> AsyncIterator[None]:
        """Writes every beat into the record as long as the body runs; times are of `time.monotonic`.

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
async def metronome() -> AsyncIterator[Metronome]:
    """The metronome, which is gone at the end."""
    process, ticking = Started(METRONOME, environment=server_environment(), may_hide=False), Metronome()
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
