"""Sample the CPU time and memory of a server and all its children, and the number of local ports in use."""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from under_siege.host.process_tree import descendants, read_proc, stat, threads
from under_siege.load.background import in_background
from under_siege.record.record import Record, append_row

SAMPLING_INTERVAL_S = 0.25
FEWEST_SAMPLES = 5
_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def used_cpu_s(process: psutil.Process) -> float:
    """Return the CPU time in seconds of all threads of a process, including ended threads but not child processes.

    Read the CPU clock of the process (clock_getcpuclockid(3)), because psutil rounds user and system time down to
    10 ms. Raise psutil.NoSuchProcess if the process has ended.
    """
    try:
        return _clock_s(process.pid)
    except OSError:
        raise psutil.NoSuchProcess(process.pid) from None


def _clock_s(pid: int) -> float:
    return time.clock_gettime(~pid << 3 | 2)


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
    counts = [words for thread in threads(pid) if len(words := read_proc(f"{pid}/task/{thread}/schedstat").split()) > 1]
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


class Memory(NamedTuple):
    """The memory of a process: PSS if the system shows it, because RSS counts shared memory once per process."""

    size_bytes: int
    kind: str
    private_bytes: int | None  # not shared with another process; None: unknown


class ProcessUsage(NamedTuple):
    """What one process has used since it started."""

    pid: int
    parent: int
    started_s: float  # on the clock CLOCK_BOOTTIME
    cpu_s: float
    children_s: float  # CPU time of its exited children
    waited_s: float  # time that its existing threads have waited for a CPU
    is_zombie: bool
    memory: Memory | None = None  # None: not read


class Allowance:
    """Limit how often something is read, so that reading it takes little of a CPU's time.

    Args:
        share: of a CPU's time that reading may take.
        shortest_s, longest_s: limits of the pause between two readings, which are more important than the share.
    """

    def __init__(self, share: float, shortest_s: float, longest_s: float) -> None:
        self._share, self._shortest_s, self._longest_s = share, shortest_s, longest_s
        self._began_s = self._next_s = 0.0

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._next_s

    def __enter__(self) -> None:
        self._began_s = time.thread_time()

    def __exit__(self, *_: object) -> None:
        pause_s = (time.thread_time() - self._began_s) / self._share
        self._next_s = time.monotonic() + min(self._longest_s, max(self._shortest_s, pause_s))


class UsageReader:
    """Read the usage of each process of a tree repeatedly, and their memory as often as `Allowance` permits."""

    def __init__(self, pid: int | None, *, memory: bool) -> None:
        self._pid, self._has_memory = pid, memory
        self._known: dict[int, Memory] = {}
        self._allowance = Allowance(0.01, 0.0, 2 * SAMPLING_INTERVAL_S - 0.1)  # at least every second sample

    def read(self, *, again: bool = False) -> list[ProcessUsage]:
        """Return the usage of the process and its descendants, parents first; an empty list without one.

        Args:
            again: whether to read the memory of every process, even if it was just read.
        """
        if self._pid is None:
            return []
        found = [usage for pid in (self._pid, *descendants(self._pid)) if (usage := _usage(pid)) is not None]
        if not found or found[0].pid != self._pid:
            return []
        if not self._has_memory:
            return found
        again = again or self._allowance.is_due
        with self._allowance if again else contextlib.nullcontext():
            for usage in found:
                if (again or usage.pid not in self._known) and not usage.is_zombie:
                    with contextlib.suppress(psutil.Error):  # the process has just ended
                        self._known[usage.pid] = _memory(psutil.Process(usage.pid))
        return [usage._replace(memory=None if usage.is_zombie else self._known.get(usage.pid)) for usage in found]


@contextlib.asynccontextmanager
async def sampling(
    pid: int | None,
    record: Record,
    began_s: float,
    *,
    memory: bool = True,
    watch: Callable[[float, list[ProcessUsage]], None] = lambda _, __: None,
) -> AsyncIterator[None]:
    """Sample the process and its children while the context is active, and once more at its end.

    Args:
        watch: called in another thread for each sample, with the time since `began_s` and the processes.
    """
    reader = UsageReader(pid, memory=memory)

    def read(*, is_last: bool) -> tuple[float, Usage | None]:
        usages = reader.read(again=is_last)
        at_s = time.monotonic() - began_s
        watch(at_s, usages)
        return at_s, _total(usages)

    async def sample(*, is_last: bool = False) -> bool:
        at_s, usage = await asyncio.to_thread(read, is_last=is_last)  # reading /proc must not delay a ping
        if usage is None:
            return False
        samples = record.samples
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
        await sample(is_last=True)


def tree_usage(pid: int | None, *, memory: bool = True) -> Usage | None:
    """Return the current usage of the process and its descendants, or None if the process is unknown or has ended."""
    return _total(UsageReader(pid, memory=memory).read())


def _total(usages: Sequence[ProcessUsage]) -> Usage | None:
    memories = [usage.memory for usage in usages if usage.memory]
    return (
        Usage(
            sum(usage.cpu_s + usage.children_s for usage in usages),
            sum(memory.size_bytes for memory in memories),
            "+".join(sorted({memory.kind for memory in memories})),
            sum(not usage.is_zombie for usage in usages),
            sum(usage.waited_s for usage in usages),
        )
        if usages
        else None
    )


def _usage(pid: int) -> ProcessUsage | None:
    """Return the usage of a process, or None if it has ended."""
    fields = stat(pid)
    try:
        used_s = _clock_s(pid)
    except OSError:
        return None
    if not fields:
        return None
    children_s, started_s = (int(fields[13]) + int(fields[14])) / _TICKS_PER_S, int(fields[19]) / _TICKS_PER_S
    is_zombie = fields[0] in (b"Z", b"X")
    return ProcessUsage(pid, int(fields[1]), started_s, used_s, children_s, _scheduled_s(pid)[1], is_zombie)


def _memory(process: psutil.Process) -> Memory:
    try:
        found = process.memory_full_info()
        return Memory(found.pss, "pss", found.uss)
    except (psutil.AccessDenied, AttributeError):  # of another user, or a kernel without /proc/PID/smaps
        return Memory(process.memory_info().rss, "rss", None)


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
