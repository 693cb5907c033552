"""Count the CPUs that this process may use, and derive the default number of workers."""

import math
import os
from pathlib import Path


def usable_cpus() -> int:
    """CPUs that this process may use, at least 1: the fewest that affinity and cgroup quotas leave."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([affinity, *(math.ceil(quota) for quota in _cgroup_quotas())]))


def usable_cpu_numbers() -> list[int]:
    """The numbers of the CPUs that affinity leaves; only 0 where a process can't be pinned to one."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]


def default_threads() -> int:
    """What `ThreadPoolExecutor()` would take on that many CPUs (its documentation, since Python 3.8)."""
    return min(32, usable_cpus() + 4)


def _cgroup_quotas(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> list[float]:
    """CPU quotas, in CPUs, of this process's cgroup and all above it (cgroup v1 and v2)."""
    quotas = []
    for folder in _cgroup_folders(proc, root):
        if v2 := _words(folder / "cpu.max"):
            quota, period = v2
        else:
            quota, period = _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us") or (
                "-1",
                "1",
            )
        if quota not in ("max", "-1"):
            quotas.append(int(quota) / int(period))
    return quotas


def _cgroup_folders(proc: Path, root: Path) -> list[Path]:
    """Every folder that can hold a limit, the process's own first."""
    try:
        lines = proc.read_text().splitlines()
    except OSError:  # not Linux
        return []
    folders = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "" or "cpu" in controllers.split(","):
            top = root / controllers if controllers else root
            own = top / path.lstrip("/")
            folders += [own, *(parent for parent in own.parents if parent.is_relative_to(top))]
    return folders


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:  # no such limit at this level
        return []
