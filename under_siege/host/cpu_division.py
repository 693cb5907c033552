"""Give the load tool and the bench CPUs of their own, if there are enough CPUs."""

import contextlib
import math
import os
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from common.workers import cpu_limit

CPUS_PER_LOAD_CPU = 4  # one in four CPUs is for the load tool and the bench
_TOPOLOGY = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class CpuDivision:
    """The CPUs of the servers, and those of the load tool and the bench, which are empty if all CPUs are shared."""

    servers: frozenset[int]
    load: frozenset[int] = frozenset()

    def server_limit(self) -> float:
        """Return how many CPUs the servers may use, such as 0.5 if the bench has a quota."""
        return len(self.servers) if self.load else cpu_limit()

    def of(self, *, is_load: bool) -> frozenset[int]:
        return self.load if is_load and self.load else self.servers


def divided(cpus: Collection[int], core_of: Callable[[int], int]) -> CpuDivision:
    """Divide these CPUs; the load gets the last ones, and whole cores if possible.

    Args:
        core_of: returns the first CPU of a CPU's core. Two threads of the same core are slower than those of two cores.
    """
    ordered = sorted(cpus, key=lambda cpu: (core_of(cpu), cpu))
    servers = len(ordered) - len(ordered) // CPUS_PER_LOAD_CPU
    return CpuDivision(frozenset(ordered[:servers]), frozenset(ordered[servers:]))


_in_force: list[CpuDivision] = []


def current_division(*, is_shared: bool = False) -> CpuDivision:
    """Return the division in force or, outside a run, that of a run.

    A CPU quota of the bench is always shared. `is_shared` leaves all CPUs to all processes.
    """
    if _in_force:
        return _in_force[-1]
    own = frozenset(os.sched_getaffinity(0))
    return CpuDivision(own) if is_shared or cpu_limit() < len(own) else divided(own, _core_of)


def server_cpu_limit() -> float:
    """Return how many CPUs the servers of a run may use, such as 0.5 if the bench has a quota."""
    return current_division().server_limit()


def server_cpus() -> int:
    """Return the number of CPUs that the servers of a run may use, rounded up."""
    return max(1, math.ceil(server_cpu_limit()))


def cpus_of_process(*, is_load: bool) -> frozenset[int]:
    """Return the CPUs of a process that the bench starts; outside a run, those of the bench."""
    return _in_force[-1].of(is_load=is_load) if _in_force else frozenset(os.sched_getaffinity(0))


@contextlib.contextmanager
def dividing_cpus(division: CpuDivision) -> Iterator[None]:
    """While the context is active, move the bench to its own CPUs, and start each process on those of its kind."""
    own = frozenset(os.sched_getaffinity(0))
    _in_force.append(division)
    try:
        _move_threads(division.of(is_load=True))
        yield
    finally:
        _in_force.pop()
        _move_threads(own)


def _move_threads(cpus: frozenset[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # the thread has just ended
            if os.sched_getaffinity(int(thread.name)) != cpus:
                os.sched_setaffinity(int(thread.name), cpus)


def _core_of(cpu: int) -> int:
    try:
        siblings = (_TOPOLOGY / f"cpu{cpu}/topology/thread_siblings_list").read_text()
    except OSError:  # a sandbox may hide it
        return cpu
    return int(re.findall(r"\d+", siblings)[0])
