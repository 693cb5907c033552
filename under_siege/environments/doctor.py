"""The doctor: what of this machine would spoil a run, and what to do about it."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from common.cpus import usable_cpus
from common.errors import BadInputError
from common.server_contract import BACKLOG
from under_siege.environments.tool_install import isolated_tool
from under_siege.load_tools.siege import Siege
from under_siege.model.task_profile import BUSY_PCT
from under_siege.monitors.cpu_speed_probe import machine_between
from under_siege.monitors.resource_usage import tree_usage
from under_siege.paths import PROGRAM

SEVERAL_TIMES_A_PORT_S = 60  # how long Linux keeps a port of a closed connection (TIME_WAIT)
OLDEST_SIEGE = (4, 0, 4)
FEW_FILES = 1024
FEW_BYTES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that would spoil a run."""

    what: str
    remedy: str


class OtherWork:
    """What others compute beside this process and all that it has started, since this was made."""

    def __init__(self) -> None:
        self._before_s, self._before, self._own_before_s = time.monotonic(), psutil.cpu_times(), _own_s()

    def share_pct(self, watch_s: float) -> float:
        """Of all CPUs; waits until they were watched for so long."""
        time.sleep(max(0.0, self._before_s + watch_s - time.monotonic()))
        machine, own_s = machine_between(self._before, psutil.cpu_times()), _own_s() - self._own_before_s
        return max(0.0, 100 * (machine.busy_s + machine.steal_s - own_s) / (machine.total_s or 1.0))


def _own_s() -> float:
    used = tree_usage(os.getpid(), memory=False)
    return used.cpu_s if used is not None else 0.0


def examine(watch_s: float = 1.0, tool: str = "siege", others: OtherWork | None = None) -> list[Finding]:
    """Everything that would spoil a run with that load tool; watches the CPUs for so long.

    Args:
        others: what has watched them already.
    """
    others = others or OtherWork()
    found = [finding for check in _CHECKS if check is not _siege or tool == "siege" for finding in check()]
    return [*_busy(others.share_pct(watch_s)), *found]


def in_one_line(findings: Sequence[Finding]) -> str:
    """For the beginning of a run."""
    return f"{'; '.join(finding.what for finding in findings)} ({PROGRAM} doctor says what to do)"


def _busy(busy_pct: float) -> Iterator[Finding]:
    if busy_pct > BUSY_PCT:
        yield Finding(f"the CPUs are {busy_pct:.0f} % busy with other work", "close other programs, or wait")


def _siege() -> Iterator[Finding]:
    try:
        with isolated_tool(Siege()) as siege:
            version = siege.version()
    except BadInputError as error:
        missing, _, remedy = str(error).partition("; ")
        yield Finding(missing, remedy)
        return
    numbers = tuple(int(digits) for digits in re.findall(r"\d+", version)[:3])
    if numbers < OLDEST_SIEGE:
        yield Finding(f"siege {version} is old", "install siege 4.0.4 or later")


def _cpus() -> Iterator[Finding]:
    cpus, usable = psutil.cpu_count() or 1, usable_cpus()
    if usable < cpus:
        yield Finding(
            f"only {usable} of {cpus} CPUs may be used here (affinity or a cgroup quota)",
            "lift the limit, or know that the result is one for so many CPUs",
        )
    if usable == 1:
        yield Finding("there is only one CPU, so that no strategy can compute in parallel", "measure on more CPUs")


def _backlog() -> Iterator[Finding]:
    somaxconn = _number("/proc/sys/net/core/somaxconn")
    if somaxconn is not None and somaxconn < BACKLOG:
        yield Finding(
            f"somaxconn is {somaxconn}: connections beyond that wait for seconds",
            f"sysctl -w net.core.somaxconn={BACKLOG}",
        )


def _ports() -> Iterator[Finding]:
    reuse, span = _number("/proc/sys/net/ipv4/tcp_tw_reuse"), _words("/proc/sys/net/ipv4/ip_local_port_range")
    if reuse == 0 and len(span) == 2:
        ports = int(span[1]) - int(span[0]) + 1
        yield Finding(
            f"{ports:,} ports, each used once a minute, allow {ports // SEVERAL_TIMES_A_PORT_S} connections a second",
            "sysctl -w net.ipv4.tcp_tw_reuse=2",
        )


def _power() -> Iterator[Finding]:
    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    if battery is not None and battery.power_plugged is False:
        yield Finding("this machine runs on its battery, and may slow down", "plug it in")
    governor = " ".join(_words("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"))
    if governor == "powersave" and not Path("/sys/devices/system/cpu/intel_pstate").exists():
        yield Finding("the CPUs are told to save power", "cpupower frequency-set -g performance")


def _memory() -> Iterator[Finding]:
    free = psutil.virtual_memory().available
    if free < FEW_BYTES:
        yield Finding(f"only {free / 1e6:.0f} MB of memory are free", "close other programs")


def _files() -> Iterator[Finding]:
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 < files < FEW_FILES:
        yield Finding(f"a process may open only {files} files, and each user needs one", f"ulimit -n {FEW_FILES}")


def _number(path: str) -> int | None:
    words = _words(path)
    return int(words[0]) if words and words[0].isdigit() else None


def _words(path: str) -> list[str]:
    try:
        return Path(path).read_text().split()
    except OSError:  # not on this system
        return []


_CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (_siege, _cpus, _backlog, _ports, _power, _memory, _files)
