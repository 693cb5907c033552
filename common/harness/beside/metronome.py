"""The metronome beside a case: how fast each CPU is from moment to moment, and how busy."""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator

import psutil

from common.cpus import usable_cpu_numbers
from common.harness.lines import reading_lines
from common.harness.machine import busy_s
from common.harness.processes import Started, until
from common.harness.server import server_environment
from common.record import Record

BUSY_EVERY_S = 0.25
FIRST_BEAT_S = 2.0  # a machine that is too slow even for that is measured without
COMMAND = [sys.executable, "-P", "-m", "common.alone.metronome"]  # the same Python for all cases


@contextlib.asynccontextmanager
async def ticking(record: Record) -> AsyncIterator[None]:
    """Writes every beat into the record as long as the body runs; times are of `time.monotonic`."""
    metronome = Started(COMMAND, environment=server_environment())
    looking = asyncio.create_task(_look_at_cpus(record))
    try:
        assert metronome.process.stdout is not None
        with reading_lines(metronome.process.stdout.fileno(), lambda line, _: _take(line, record)):
            await until(lambda: bool(record.beats.at_s), FIRST_BEAT_S)
            yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        await metronome.stop(grace_s=0)


def _take(line: str, record: Record) -> None:
    at_s, cpu, took_s = line.split(",")
    record.beats.at_s.append(float(at_s))
    record.beats.cpu.append(int(cpu))
    record.beats.took_s.append(float(took_s))


async def _look_at_cpus(record: Record) -> None:
    columns, cpus, due_s = record.cpu_times, usable_cpu_numbers(), time.monotonic()
    while True:
        columns.at_s.append(time.monotonic())
        everything = psutil.cpu_times(percpu=True)
        for cpu in cpus:
            columns.busy_s.setdefault(cpu, []).append(round(busy_s(everything[cpu]), 2))
        due_s += BUSY_EVERY_S
        await asyncio.sleep(due_s - time.monotonic())
