"""Sample the CPU time and memory of a server with all its children, and the local ports in use."""

import asyncio
import contextlib
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from under_siege.model.record import Record
from under_siege.processes.managed_process import offspring


def used_cpu_s(process: psutil.Process) -> float:
    """Return the CPU time of all its threads, including those that have ended, without its children.

    Linux gives them in nanoseconds by a clock of each process (clock_getcpuclockid(3)). What /proc has of it, and so
    psutil, is cut to steps of 10 ms, twice: in a short siege that is a good part of what a light task takes.

    Raises:
        psutil.NoSuchProcess: it is gone.
    """
    if sys.platform != "linux":
        times = process.cpu_times()
        return float(times.user + times.system)
    try:
        return time.clock_gettime(~process.pid << 3 | 2)
    except OSError:
        raise psutil.NoSuchProcess(process.pid) from None


PROC = Path("/proc")
_IPV4 = PROC / "sys/net/ipv4"
INTERVAL_S = 0.25
FEWEST_LOOKS = 5


class Wakefulness:
    """Looks at a process, its threads and its children; Linux counts for each thread how long it ran and waited."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looks: list[tuple[float, float]] = []  # when, and seconds awake since it was started

    def look(self) -> None:
        """Record how long it was awake until now, if it is still there."""
        awake_s = sum(sum(scheduled(pid)) for pid in _family(self._pid))
        if awake_s and awake_s >= (self._looks[-1][1] if self._looks else 0.0):
            self._looks.append((time.monotonic(), awake_s))

    def cpus(self, last_s: float) -> float | None:
        """Return the mean number of CPUs on which it was awake in the last seconds; None if that isn't known."""
        if not self._looks:
            return None
        looks = [look for look in self._looks if look[0] >= self._looks[-1][0] - last_s]
        if len(looks) < FEWEST_LOOKS:
            return None
        (from_s, before_s), (to_s, after_s) = looks[0], looks[-1]
        return (after_s - before_s) / (to_s - from_s) if to_s > from_s else None


def _family(pid: int) -> Iterator[int]:
    yield pid
    for child in _words(PROC / str(pid) / "task" / str(pid) / "children"):
        yield from _family(int(child))


class Scheduled(NamedTuple):
    """What the scheduler counts of a process."""

    ran_s: float
    waited_s: float  # for a CPU


def scheduled(pid: int) -> Scheduled:
    """Return the sums over all threads that there are; zeros where the system does not count."""
    try:
        threads = list((PROC / str(pid) / "task").iterdir())
    except OSError:
        return Scheduled(0.0, 0.0)
    told = [_words(thread / "schedstat") for thread in threads]  # nanoseconds on a CPU, and waiting for one
    known = [(int(words[0]), int(words[1])) for words in told if len(words) >= 2]
    return Scheduled(sum(ran for ran, _ in known) / 1e9, sum(waited for _, waited in known) / 1e9)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # it has ended, or this is not Linux
        return []


class Usage(NamedTuple):
    """What a process tree uses."""

    cpu_s: float
    memory_bytes: int
    memory_kind: str
    processes: int
    waited_s: float  # for a CPU, by all threads that there are


@contextlib.asynccontextmanager
async def sampling(pid: int, record: Record, began_s: float, *, memory: bool = True) -> AsyncIterator[None]:
    """Sample the process and its children while the body runs, and once more at its end."""
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
    """Return what the process and all below it use now; None if it is gone."""
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
    """Return PSS, because RSS counts shared memory once for each process; USS or RSS where there is no PSS."""
    try:
        full = process.memory_full_info()
    except psutil.AccessDenied:
        return process.memory_info().rss, "rss"
    for kind in ("pss", "uss"):
        if (size := getattr(full, kind, 0)) > 0:
            return int(size), kind
    return full.rss, "rss"


@contextlib.asynccontextmanager
async def watching_ports(record: Record, began_s: float) -> AsyncIterator[None]:
    """Record how many local ports are taken while the body runs, because a load tool may use them up."""
    span, reuse = _words(_IPV4 / "ip_local_port_range"), _words(_IPV4 / "tcp_tw_reuse")
    if len(span) == 2 and all(word.isdecimal() for word in span):
        record.port_range = max(1, int(span[1]) - int(span[0]) + 1)
        record.ports_are_reused = reuse not in ([], ["0"])  # 1: always, 2: on the loopback interface, where we are
    watching = asyncio.create_task(_watch(record, began_s))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(record: Record, began_s: float) -> None:
    while (taken := taken_ports()) is not None:
        record.ports.at_s.append(round(time.monotonic() - began_s, 4))
        record.ports.taken.append(taken)
        await asyncio.sleep(INTERVAL_S)


def taken_ports() -> int | None:
    """Return how many TCP sockets have a port, including TIME_WAIT; None if the system does not tell."""
    counts = re.search(
        r"^TCP: inuse (\d+) .*\btw (\d+)", " ".join(_words(PROC / "net/sockstat")).replace(" TCP: ", "\nTCP: "), re.M
    )
    return int(counts[1]) + int(counts[2]) if counts else None
