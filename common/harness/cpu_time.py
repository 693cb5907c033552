"""How long the CPUs have worked for a process, as exactly as the system tells."""

import sys
import time

import psutil


def used_cpu_s(process: psutil.Process) -> float:
    """CPU seconds of all its threads, those that have ended among them, but not of its children.

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
