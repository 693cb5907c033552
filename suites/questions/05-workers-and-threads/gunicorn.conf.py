"""Start one worker for each CPU that this container may use, with threads for I/O-bound requests."""

import math
import os
from pathlib import Path

CPU_MAX = Path("/sys/fs/cgroup/cpu.max")  # the limit of a container: "150000 100000" means 1.5 CPUs


def usable_cpus() -> int:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # for macOS
    quota, _, period = CPU_MAX.read_text().partition(" ") if CPU_MAX.exists() else ("max", "", "")
    return cpus if quota == "max" else min(cpus, math.ceil(int(quota) / int(period)))


workers = int(os.environ.get("WEB_CONCURRENCY") or usable_cpus())
worker_class = "gthread"
threads = 8  # about 1 + waiting time / CPU time of a request
