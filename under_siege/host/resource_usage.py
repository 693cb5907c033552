"""Sample the CPU time and memory of a server and all its children, and the number of local ports in use."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import psutil

from under_siege.host.managed_process import offspring
from under_siege.host.process_tree import descendants
from under_siege.load.background import in_background
from under_siege.record.record import Record, append_row

SAMPLING_INTERVAL_S = 0.25
FEWEST_SAMPLES = 5
_PROC = Path("/proc")


def used_cpu_s(process: psutil.Process) -> float:
    """Return the CPU time in seconds of all threads of a process, including ended threads but not child processes.

    Read the CPU clock of the process (clock_getcpuclockid(3)), because psutil rounds user and system time down to
    10 ms. Raise psutil.NoSuchProcess if the process has ended.
    """
    try:
        return time.clock_gettime(~process.pid << 3 | 2)
    except OSError:
        raise psutil.NoSuchProcess(process.pid) from None


class Wakefulness:
    """Sample how long the threads of a process and its children ran or waited for a CPU, as counted by Linux."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._samples: list[tuple[float, float]] = []  # (monotonic time, seconds for which the process has been awake)

    def sample(self) -> None:
        """Record the time awake until now, if the process still exists."""
        awake_s = sum(sum(_scheduled_s(pid)) for pid in (self._pid, *descendants(self._pid)))
        if awake_s and awake_s >= (self._samples[-1][1] if self._samples else 0.0):
            self._samples.append((time.monotonic(), awake_s))

    def cpus(self, last_s: float) -> float | None:
        """Return the mean number of CPUs used or waited for in the last `last_s` seconds, or None if unknown."""
        samples = [sample for sample in self._samples if sample[0] >= self._samples[-1][0] - last_s]
        if len(samples) < FEWEST_SAMPLES:
            return None
        (from_s, before_s), (to_s, after_s) = samples[0], samples[-1]
        return (after_s - before_s) / (to_s - from_s) if to_s > from_s else None


def _scheduled_s(pid: int) -> tuple[float, float]:
    """Return the total running time of the threads and their total wait for a CPU, in seconds, or zeros if unknown."""
    try:
        threads = list((_PROC / str(pid) / "task").iterdir())
    except OSError:
        return 0.0, 0.0
    counts = [words for thread in threads if len(words := words_in(thread / "schedstat")) >= 2]  # in nanoseconds
    return sum(int(words[0]) for words in counts) / 1e9, sum(int(words[1]) for words in counts) / 1e9


def words_in(path: Path) -> list[str]:
    """Return the words of a file of the system, or an empty list if it can't be read."""
    try:
        return path.read_text().split()
    except OSError:  # the process has ended
        return []


class Usage(NamedTuple):
    """The resource usage of a process tree."""

    cpu_s: float
    memory_bytes: int
    memory_kind: str
    processes: int
    waited_s: float  # time that existing threads have waited for a CPU


@contextlib.asynccontextmanager
async def sampling(pid: int | None, record: Record, began_s: float, *, memory: bool = True) -> AsyncIterator[None]:
    """Sample the process and its children while the context is active, and once more at its end."""

    async def sample() -> bool:
        usage = await asyncio.to_thread(tree_usage, pid, memory=memory)  # reading /proc must not delay a ping
        if usage is None:
            return False
        at_s, samples = time.monotonic() - began_s, record.samples
        samples.at_s.append(round(at_s, 6))
        samples.cpu_s.append(round(usage.cpu_s, 6))
        samples.processes.append(usage.processes)
        samples.waited_s.append(round(usage.waited_s, 6))
        if memory:
            samples.memory_bytes.append(usage.memory_bytes)
            record.memory_kind = usage.memory_kind
        return True

    async def sample_until_gone() -> None:
        while True:
            if not await sample():
                return
            await asyncio.sleep(SAMPLING_INTERVAL_S)

    try:
        async with in_background(sample_until_gone()):
            yield
    finally:
        await sample()


def tree_usage(pid: int | None, *, memory: bool = True) -> Usage | None:
    """Return the current usage of the process and its descendants, or None if the process is unknown or has ended."""
    if pid is None:
        return None
    try:
        processes = [psutil.Process(pid), *offspring(pid)]
    except psutil.NoSuchProcess:
        return None
    used_s = 0.0
    waited_s = 0.0
    memory_bytes = 0
    kinds = set()
    counted = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):  # the process has just ended, or is a zombie
            own_s, times = used_cpu_s(process), process.cpu_times()
            size, kind = _memory(process) if memory else (0, "")
            waited_s += _scheduled_s(process.pid)[1]
            used_s += own_s + times.children_user + times.children_system  # children_*: of exited children
            memory_bytes += size
            kinds.add(kind)
            counted += 1
    return Usage(used_s, memory_bytes, "+".join(sorted(kinds)), counted, waited_s) if counted else None


def _memory(process: psutil.Process) -> tuple[int, str]:
    """Return the memory and its kind: PSS if the system shows it, because RSS counts shared memory once per process."""
    try:
        return process.memory_full_info().pss, "pss"
    except (psutil.AccessDenied, AttributeError):  # of another user, or a kernel without /proc/PID/smaps
        return process.memory_info().rss, "rss"


@contextlib.asynccontextmanager
async def watching_ports(record: Record, began_s: float) -> AsyncIterator[None]:
    """Record how many local ports are in use while the context is active, because a load tool may exhaust them."""
    span, reuse = (words_in(_PROC / "sys/net/ipv4" / name) for name in ("ip_local_port_range", "tcp_tw_reuse"))
    if len(span) == 2 and all(word.isdecimal() for word in span):
        record.port_range = max(1, int(span[1]) - int(span[0]) + 1)
        record.ports_are_reused = reuse not in ([], ["0"])  # 1: always, 2: on the loopback interface

    async def sample() -> None:
        while (taken := _taken_ports()) is not None:
            append_row(record.ports, round(time.monotonic() - began_s, 4), taken)
            await asyncio.sleep(SAMPLING_INTERVAL_S)

    async with in_background(sample()):
        yield


def _taken_ports() -> int | None:
    """Return the number of TCP sockets with a port, including those in TIME_WAIT, or None if it is unknown."""
    counts = re.search(r"\bTCP: inuse (\d+) .*?\btw (\d+)", " ".join(words_in(_PROC / "net/sockstat")))
    return int(counts[1]) + int(counts[2]) if counts else None
