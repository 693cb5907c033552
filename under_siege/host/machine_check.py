"""Find conditions of this machine that would distort a run."""

import contextlib
import os
import re
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from common.errors import BadInputError
from under_siege.host.cpu_division import current_division
from under_siege.host.machine_speed import BUSY_PCT, machine_between
from under_siege.host.programs import isolated_tool
from under_siege.host.resource_usage import tree_usage, words_in
from under_siege.load.siege import Siege
from under_siege.paths import INVOCATION

TIME_WAIT_S = 60  # how long Linux reserves the port of a closed connection
OLDEST_SIEGE = (4, 0, 4)
BACKLOG = 2048  # the default of gunicorn and uvicorn
FEW_FILES = 1024
FEW_BYTES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition that would distort a run, with its remedy."""

    what: str
    remedy: str


class OtherWork:
    """The CPU time of all processes except this one and its descendants."""

    def __init__(self) -> None:
        self._before_s = time.monotonic()
        self._before = psutil.cpu_times()
        self._own_before_s = _own_s()

    def share_pct(self, watch_s: float) -> float:
        """Return other processes' CPU time in the `watch_s` seconds after `__init__`, as a percentage of all CPUs."""
        time.sleep(max(0.0, self._before_s + watch_s - time.monotonic()))
        machine, own_s = machine_between(self._before, psutil.cpu_times()), _own_s() - self._own_before_s
        return max(0.0, 100 * (machine.busy_s + machine.steal_s - own_s) / (machine.total_s or 1.0))


def _own_s() -> float:
    usage = tree_usage(os.getpid(), memory=False)
    return usage.cpu_s if usage is not None else 0.0


def examine(watch_s: float = 1.0, tool: str = "siege", others: OtherWork | None = None) -> list[Finding]:
    """Return the conditions that would distort a run with this load tool.

    Args:
        watch_s: how long to watch the CPUs.
        others: an observation of other processes that has already begun; None to begin one now.
    """
    others = others or OtherWork()
    findings = [*(_siege() if tool == "siege" else ()), *_cpus(), *_network(), *_limits()]
    if (busy_pct := others.share_pct(watch_s)) > BUSY_PCT:
        busy = Finding(
            f"other programs or noisy neighbours use {busy_pct:.0f} % of the CPUs", "close other programs, or wait"
        )
        return [busy, *findings]
    return findings


def in_one_line(findings: Sequence[Finding]) -> str:
    return f"{'; '.join(finding.what for finding in findings)} ({INVOCATION} doctor shows remedies)"


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
        yield Finding(f"siege {version} is too old", "install siege 4.0.4 or later")


def _cpus() -> Iterator[Finding]:
    division = current_division()
    cpus, usable = psutil.cpu_count() or 1, division.server_limit() + len(division.load)
    if usable < cpus:
        yield Finding(
            f"only {usable:g} of {cpus} CPUs can be used (affinity or a cgroup quota), and the load tool shares them",
            f"lift the limit and use --cpus {usable:g}, which limits only the servers",
        )
    if usable <= 1:
        yield Finding(
            f"only {usable:g} CPU can be used, so computing in parallel gives no higher throughput",
            "measure on more CPUs",
        )
    battery = None
    with contextlib.suppress(OSError):  # a sandbox may have no /sys/class/power_supply
        battery = psutil.sensors_battery()
    if battery is not None and battery.power_plugged is False:
        yield Finding("this machine runs on battery power and may slow down", "plug it in")
    has_pstate = Path("/sys/devices/system/cpu/intel_pstate").exists()
    if words_in(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")) == ["powersave"] and not has_pstate:
        yield Finding("the CPUs are in power-saving mode", "cpupower frequency-set -g performance")


def _network() -> Iterator[Finding]:
    somaxconn = words_in(Path("/proc/sys/net/core/somaxconn"))
    if somaxconn and int(somaxconn[0]) < BACKLOG:
        yield Finding(
            f"somaxconn is {somaxconn[0]}: if more connections arrive at once, some are delayed by seconds",
            f"sysctl -w net.core.somaxconn={BACKLOG}",
        )
    span = words_in(Path("/proc/sys/net/ipv4/ip_local_port_range"))
    if words_in(Path("/proc/sys/net/ipv4/tcp_tw_reuse")) == ["0"] and len(span) == 2:
        ports = int(span[1]) - int(span[0]) + 1
        yield Finding(
            f"{ports:,} local ports, each usable once per minute, allow only {ports // TIME_WAIT_S} connections per "
            "second",
            "sysctl -w net.ipv4.tcp_tw_reuse=2",
        )


def _limits() -> Iterator[Finding]:
    free = psutil.virtual_memory().available
    if free < FEW_BYTES:
        yield Finding(f"only {free / 1e6:.0f} MB of memory is free", "close other programs")
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if 0 < files < FEW_FILES:
        yield Finding(
            f"a process may open only {files} files, and each user needs an open file", f"ulimit -n {FEW_FILES}"
        )
