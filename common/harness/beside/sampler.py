"""The sampler: CPU seconds and memory of a server with all its children, several times a second."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import psutil

from common.harness.beside.wakefulness import scheduled
from common.harness.cpu_time import used_cpu_s
from common.harness.processes import offspring
from common.model.record import Record

INTERVAL_S = 0.25


class Usage(NamedTuple):
    """What a process tree uses."""

    cpu_s: float
    memory_bytes: int
    memory_kind: str
    processes: int
    waited_s: float  # for a CPU, by all threads that there are


@contextlib.asynccontextmanager
async def sampling(pid: int, record: Record, began_s: float, *, memory: bool = True) -> AsyncIterator[None]:
    """Samples the process and its children into the record as long as the body runs, once more at its end."""
    stop = asyncio.Event()
    task = asyncio.create_task(_sample(pid, record, began_s, stop, memory=memory))
    try:
        yield
    finally:
        stop.set()
        await task


async def _sample(pid: int, record: Record, began_s: float, stop: asyncio.Event, *, memory: bool) -> None:
    last = False
    while not last:
        last = stop.is_set()
        usage = await asyncio.to_thread(tree_usage, pid, memory=memory)  # reading /proc must not delay a ping
        if usage is None:
            return
        samples = record.samples
        samples.at_s.append(round(time.monotonic() - began_s, 6))
        samples.cpu_s.append(round(usage.cpu_s, 6))
        samples.processes.append(usage.processes)
        samples.waited_s.append(round(usage.waited_s, 6))
        if memory:
            samples.memory_bytes.append(usage.memory_bytes)
            record.memory_kind = usage.memory_kind
        if not last:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), INTERVAL_S)


def tree_usage(pid: int, *, memory: bool = True) -> Usage | None:
    """What the process and all below it use now; None if it is gone."""
    try:
        root = psutil.Process(pid)
        processes = [root, *offspring(pid)]
    except psutil.NoSuchProcess:
        return None
    used_s, waited_s, memory_bytes, kinds, counted = 0.0, 0.0, 0, set(), 0
    for process in processes:
        with contextlib.suppress(psutil.Error):  # it ended meanwhile, or is a zombie
            own_s, times = used_cpu_s(process), process.cpu_times()
            size, kind = _memory(process) if memory else (0, "")
            # What children that have ended had used is in their parent's figures.
            waited_s += scheduled(process.pid).waited_s
            used_s += own_s + times.children_user + times.children_system
            memory_bytes += size
            kinds.add(kind)
            counted += 1
    return Usage(used_s, memory_bytes, "+".join(sorted(kinds)), counted, waited_s) if counted else None


def _memory(process: psutil.Process) -> tuple[int, str]:
    """PSS, because RSS counts what processes share once for each; USS or RSS where there is no PSS."""
    try:
        full = process.memory_full_info()
    except psutil.AccessDenied:
        return process.memory_info().rss, "rss"
    for kind in ("pss", "uss"):
        if (size := getattr(full, kind, 0)) > 0:
            return int(size), kind
    return full.rss, "rss"
