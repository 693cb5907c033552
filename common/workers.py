"""Count the CPUs that this process may use, choose the default number of workers, and set up worker processes.

The helper processes of the bench that perform a task report in lines of JSON.
"""

import ctypes
import json
import math
import os
import signal
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread

_PR_SET_PDEATHSIG = 1  # prctl(2)


def cpu_limit() -> float:
    """Return how many CPUs this process may use, such as 0.5, given its CPU affinity and cgroup quotas."""
    return min([len(os.sched_getaffinity(0)), *_cgroup_quotas()])


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use, rounded up."""
    return max(1, math.ceil(cpu_limit()))


def default_threads() -> int:
    """Return how many threads `ThreadPoolExecutor` would have by default if the machine had only the usable CPUs."""
    return min(32, usable_cpus() + 4)


def exit_with_server() -> None:
    """Set up a worker process: it ignores Ctrl-C, which the server handles, and exits when the server is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if server := parent_process():  # the parent of a worker that a fork server started is the fork server
        Thread(target=_exit_after, args=[server], daemon=True).start()


def _exit_after(server: BaseProcess) -> None:
    server.join()
    os.kill(os.getpid(), signal.SIGKILL)


def json_lines() -> Callable[[object], None]:
    """Return a function that prints a value as a line of JSON, and discard everything else that goes to stdout.

    Each line is written in one system call, so that the lines of several processes don't mix.
    """
    lines, nothing = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)

    def report(value: object) -> None:
        os.write(lines, json.dumps(value).encode() + b"\n")

    return report


def _cgroup_quotas(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> list[float]:
    """Return the quotas of this process's cgroup and of all its ancestors, in CPUs (cgroups(7), versions 1 and 2)."""
    quotas, names = [], ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us")
    for controllers, path in (line.split(":", 2)[1:] for line in proc.read_text().splitlines()):
        if not controllers or "cpu" in controllers.split(","):
            own = root / ("cpu" if controllers else "") / path.lstrip("/")
            for place in (place for place in (own, *own.parents) if place.is_relative_to(root)):
                texts = [(place / name).read_text() for name in names if (place / name).exists()]
                quota, period = " ".join(texts or ["max 0"]).split()
                quotas += [int(quota) / int(period)] if quota not in ("max", "-1") else []
    return quotas
