"""Run a server in a cgroup with a CPU quota and a memory limit, and read the kernel's counters (cgroups(7)).

Both versions of cgroups are supported, also side by side: version 1 has a tree of directories for each controller,
version 2 has a single tree.
"""

import contextlib
import errno
import math
import os
import re
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from common.errors import BadInputError
from common.workers import cpu_limit
from under_siege.host.supervisor_client import current_supervisor
from under_siege.paths import INVOCATION
from under_siege.record.case import Case, Value
from under_siege.record.record import OUT_OF_MEMORY, CaseFailedError, LimitUsage, Record

LIMITS = ("cpus", "memory")  # axes
CPU, MEMORY = "cpu", "memory"  # names of the controllers
PERIOD_US = 100_000  # the kernel's default period of a quota
LEAST_CPUS, LEAST_BYTES = 0.01, 8_000_000  # the kernel's minimum is 1 ms in 100 ms; a Python process needs 8 MB
REMOVAL_LIMIT_S = 2.0  # timeout for the exit of the last process of a group
_SIZES = {"MB": 10**6, "GB": 10**9, "MIB": 2**20, "GIB": 2**30}
_KERNEL_LOG = Path("/dev/kmsg")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server with all its processes; None: unlimited."""

    cpus: float | None = None
    memory_bytes: int | None = None

    @classmethod
    def of(cls, case: Case) -> "Limits":
        """Return the limits of a case, from its values on the axes `cpus` and `memory`."""
        cpus, memory = case.get("cpus"), case.get("memory")
        return cls(None if cpus is None else float(cpus), None if memory is None else size_bytes(str(memory)))


def size_bytes(text: str) -> int | None:
    """Parse `512MB`, `1.5GB`, `512MiB` or `1GiB`; return None for any other text."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?) ?([MG]i?B)", text, re.ASCII | re.IGNORECASE)
    return int(float(match[1]) * _SIZES[match[2].upper()]) if match else None


def limit_values(name: str, values: Sequence[Value | float], key: str) -> tuple[str, ...]:
    """Return the values of the axis `cpus` or `memory` as text; raise BadInputError if one is impossible here.

    Args:
        key: where the user wrote the value, such as `--cpus`.
    """
    for value in values:
        if name == "cpus":
            most = cpu_limit()
            if not LEAST_CPUS <= _number(value) <= most:
                given = str(value).removesuffix(".0")
                raise BadInputError(f"{key} {given}: expected a number from {LEAST_CPUS} to {most:g}, the CPUs here")
        else:
            size, most_bytes = size_bytes(str(value)), psutil.virtual_memory().total
            if size is None or not LEAST_BYTES <= size <= most_bytes:
                expected = f"a size from {LEAST_BYTES // 10**6}MB to {most_bytes // 10**6}MB, such as 512MB"
                raise BadInputError(f"{key} {value}: expected {expected}")
    texts = (f"{float(value):g}" if name == "cpus" else str(value).replace(" ", "") for value in values)
    return tuple(dict.fromkeys(texts))


def _number(value: Value | float) -> float:
    try:
        return float(value)
    except ValueError:
        return math.nan


@dataclass(frozen=True, slots=True)
class Controller:
    """The directory of a cgroup for one controller, in one of the two versions."""

    folder: Path
    top: Path  # the root of the tree
    is_v2: bool

    def groups(self) -> list["Controller"]:
        """Return the group and all its ancestors that can be seen from here."""
        places = (self.folder, *self.folder.parents)
        return [Controller(place, self.top, self.is_v2) for place in places if place.is_relative_to(self.top)]

    def read(self, name: str, key: str = "") -> int | None:
        """Return the number in a file or, in a file with a name and a number per line, the number of `key`."""
        with contextlib.suppress(OSError, ValueError):
            lines = dict(line.rpartition(" ")[::2] for line in (self.folder / name).read_text().splitlines())
            return int(lines[key]) if key in lines else None
        return None

    def write(self, name: str, value: object) -> None:
        (self.folder / name).write_text(str(value))

    def cpus(self) -> float | None:
        """Return the CPU quota of this group, or None if it has none."""
        with contextlib.suppress(OSError, ValueError):
            files = ("cpu.max",) if self.is_v2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            quota, period = " ".join((self.folder / name).read_text() for name in files).split()
            return int(quota) / int(period) if quota not in ("max", "-1") else None
        return None

    def memory_bytes(self) -> int | None:
        """Return the memory limit of this group, or None if it has none that is lower than the machine's memory."""
        limit = self.read("memory.max" if self.is_v2 else "memory.limit_in_bytes")
        return limit if limit is not None and limit < psutil.virtual_memory().total else None


def own_controllers(
    own: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")
) -> dict[str, Controller]:
    """Return this process's group for each controller: that of version 1 where it is in use, otherwise version 2."""
    found = {}
    lines = [line.split(":", 2)[1:] for line in own.read_text().splitlines()]
    for controllers, path in sorted(lines, reverse=True):  # version 2 has no controllers in its line, so it comes last
        for name in (CPU, MEMORY):
            top = root / name if controllers else root
            folder = top / path.lstrip("/")
            folder = folder if folder.is_dir() else top  # a container sees its own group as the root
            if controllers and name in controllers.split(","):
                found[name] = Controller(folder, top, is_v2=False)
            elif not controllers and name not in found and (root / "cgroup.controllers").exists():
                found[name] = Controller(folder, top, is_v2=True)
    return found


class Group:
    """A cgroup for a server, or the one in which the bench itself runs, and the limits that apply to it."""

    def __init__(self, controllers: Mapping[str, Controller], limits: Limits, *, is_shared: bool = False) -> None:
        self._of, self._limits, self._is_shared = controllers, limits, is_shared
        self.folders = list(dict.fromkeys(each.folder for each in controllers.values()))

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command, changed so that its process enters the group before the program starts."""
        enter = 'for group in $0; do echo $$ >"$group/cgroup.procs" || exit 1; done; exec "$@"'
        return list(command) if self._is_shared else ["sh", "-c", enter, " ".join(map(str, self.folders)), *command]

    def usage(self) -> LimitUsage:
        """Return the limits, and what the kernel has counted since the group was created."""
        cpu, memory = self._of.get(CPU), self._of.get(MEMORY)
        throttled = (cpu.read("cpu.stat", "throttled_usec" if cpu.is_v2 else "throttled_time") or 0) if cpu else 0
        return LimitUsage(
            cpus=self._limits.cpus,
            memory_bytes=self._limits.memory_bytes,
            is_shared=self._is_shared,
            periods=(cpu.read("cpu.stat", "nr_periods") or 0) if cpu else 0,
            throttled_periods=(cpu.read("cpu.stat", "nr_throttled") or 0) if cpu else 0,
            throttled_s=throttled / (1e6 if cpu and cpu.is_v2 else 1e9),
            peak_memory_bytes=memory.read("memory.peak" if memory.is_v2 else "memory.max_usage_in_bytes")
            if memory
            else None,
            oom_kills=(memory.read("memory.events" if memory.is_v2 else "memory.oom_control", "oom_kill") or 0)
            if memory
            else 0,
        )

    def oom(self) -> str:
        """Return which processes the kernel killed for lack of memory, or an empty string if it killed none."""
        kills = self.usage().oom_kills if not self._is_shared else 0
        if not kills:
            return ""
        limit = f"{(self._limits.memory_bytes or 0) / 1e6:.0f} MB"
        many = "a process of the server" if kills == 1 else f"{kills} processes of the server"
        log = _kernel_log()
        found = re.findall(rf"{self.folders[-1].name}\b.*\n.*Killed process \d+ \((.*?)\).*?anon-rss:(\d+)kB", log)
        sizes = "; ".join(f"{name} used {int(kb) * 1024 / 1e6:.0f} MB" for name, kb in found[-1:])
        what_to_do = "use fewer workers, or a higher limit"
        killed = f"out of memory: the kernel killed {many} at the limit of {limit}"
        return f"{killed}{f' ({sizes})' if sizes else ''}; {what_to_do}"

    def remove(self) -> None:
        """Remove the directories, once the last process has ended."""
        deadline_s = time.monotonic() + REMOVAL_LIMIT_S
        for folder in self.folders:
            while folder.exists():
                with contextlib.suppress(OSError):
                    folder.rmdir()
                if time.monotonic() > deadline_s:
                    break
                time.sleep(0.01)


def _kernel_log() -> str:
    """Return the kernel's log, or an empty string if this user can't read it."""
    messages = []
    with contextlib.suppress(OSError):  # BlockingIOError: the end
        descriptor = os.open(_KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
        try:
            while True:
                messages.append(os.read(descriptor, 8192).decode(errors="replace").partition("\n")[0])
        finally:
            os.close(descriptor)
    return "\n".join(messages)


@contextlib.contextmanager
def limited(limits: Limits) -> Iterator[Group | None]:
    """Yield a new cgroup with these limits, and remove it at the end, even if the bench is killed.

    Without limits, yield the group that limits the bench itself, for example in a container, or None if there is none.

    Raises:
        BadInputError: no cgroup with these limits can be created.
    """
    if limits == Limits():
        yield own_group()
        return
    group = _created(limits)
    with contextlib.ExitStack() as stack:
        for folder in group.folders:
            stack.enter_context(current_supervisor().removing(folder))
        stack.callback(group.remove)
        yield group


def _created(limits: Limits) -> Group:
    name, own, controllers = f"under-siege-{uuid.uuid4().hex[:12]}", own_controllers(), dict[str, Controller]()
    needed = [each for each, limit in ((CPU, limits.cpus), (MEMORY, limits.memory_bytes)) if limit is not None]
    group = Group(controllers, limits)
    try:
        for each in needed:
            if each not in own:
                raise FileNotFoundError(errno.ENOENT, f"this system has no cgroup controller {each}")
            controllers[each] = _new_group(own[each], name, needed)
        group = Group(controllers, limits)
        _apply(controllers, limits)
        subprocess.run(group.command(["true"]), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        group.remove()
        raise BadInputError(_refusal(error)) from None
    return group


def _new_group(own: Controller, name: str, needed: Sequence[str]) -> Controller:
    """Create a group; in version 2, below the nearest ancestor that may pass on all needed controllers."""
    if not own.is_v2:
        (own.folder / name).mkdir(exist_ok=True)
        return Controller(own.folder / name, own.top, is_v2=False)
    problem: OSError = FileNotFoundError(errno.ENOENT, "no cgroup may pass on the controllers cpu and memory")
    for ancestor in own.groups():
        new = Controller(ancestor.folder / name, own.top, is_v2=True)
        try:
            passed_on = (ancestor.folder / "cgroup.subtree_control").read_text().split()
            if missing := [each for each in needed if each not in passed_on]:
                ancestor.write("cgroup.subtree_control", " ".join(f"+{each}" for each in missing))
            new.folder.mkdir(exist_ok=True)
        except OSError as error:  # EBUSY: the group has processes of its own
            problem = error
        else:
            return new
    raise problem


def _apply(controllers: Mapping[str, Controller], limits: Limits) -> None:
    if limits.cpus is not None:
        cpu, quota_us = controllers[CPU], round(limits.cpus * PERIOD_US)
        cpu.write("cpu.max" if cpu.is_v2 else "cpu.cfs_quota_us", f"{quota_us} {PERIOD_US}" if cpu.is_v2 else quota_us)
    if limits.memory_bytes is not None:
        memory = controllers[MEMORY]
        memory.write("memory.max" if memory.is_v2 else "memory.limit_in_bytes", limits.memory_bytes)
        with contextlib.suppress(OSError):  # without this file, the system does not account for swap
            swap = ("memory.swap.max", 0) if memory.is_v2 else ("memory.memsw.limit_in_bytes", limits.memory_bytes)
            memory.write(*swap)


def _refusal(error: OSError | subprocess.CalledProcessError) -> str:
    why = error.strerror if isinstance(error, OSError) else "its processes can't enter it"
    what_to_do = f"run this as root, or with: systemd-run --user --scope -p Delegate=yes {INVOCATION} run"
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        what_to_do = "set the limits of the container instead, such as docker run --cpus 0.5, and run without them"
    return f"--cpus and --memory need a cgroup, but none can be created ({why}); {what_to_do}"


def own_group() -> Group | None:
    """Return the group that limits the bench itself, or None if it has no limits."""
    controllers, limits = dict[str, Controller](), dict[str, float | int]()
    for name, controller in own_controllers().items():
        of = Controller.cpus if name == CPU else Controller.memory_bytes
        limited_groups = [(limit, group) for group in controller.groups() if (limit := of(group)) is not None]
        if limited_groups:
            limits[name], controllers[name] = min(limited_groups, key=lambda pair: pair[0])
    memory_bytes = limits.get(MEMORY)
    own = Limits(limits.get(CPU), None if memory_bytes is None else int(memory_bytes))
    return Group(controllers, own, is_shared=True) if controllers else None


@contextlib.contextmanager
def watching_limits(group: Group | None, record: Record) -> Iterator[None]:
    """Record how the kernel enforced the limits while the context is active."""
    if group is None:
        yield
        return
    before = group.usage()
    try:
        yield
    finally:
        record.limits = group.usage().since(before)


def must_fit(group: Group | None) -> None:
    """Raise CaseFailedError if the kernel killed a process of the group for lack of memory."""
    if group is not None and (why := group.oom()):
        raise CaseFailedError(OUT_OF_MEMORY, why)
