"""Run a server in a cgroup with a CPU quota and a memory limit, and read the kernel's counters (cgroups(7)).

Both versions of cgroups are supported, also side by side: version 1 has a tree of directories for each controller,
version 2 has a single tree.
"""

import contextlib
import errno
import math
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from common.errors import BadInputError
from under_siege.host.commands import CommandError, output_of
from under_siege.host.cpu_division import server_cpu_limit
from under_siege.host.supervisor_client import current_supervisor
from under_siege.record.case import Case, Value
from under_siege.record.record import OUT_OF_MEMORY, CaseFailedError, LimitUsage, Record

LIMITS = ("cpus", "memory")  # axes
CPU, MEMORY = "cpu", "memory"  # names of the controllers
PERIOD_US = 100_000  # the kernel's default period of a quota
LEAST_CPUS, LEAST_BYTES = 0.01, 8_000_000  # the kernel's minimum is 1 ms in 100 ms; a Python process needs 8 MB
QUOTA_STEP = 1e-4  # accuracy of a quota in CPUs; the kernel stores whole microseconds
LARGEST_PAGE = 65536  # the kernel rounds a memory limit down to whole pages
REMOVAL_LIMIT_S = 2.0  # timeout for the exit of the last process of a group
_SIZES = {"MB": 10**6, "GB": 10**9, "MIB": 2**20, "GIB": 2**30}
_KERNEL_LOG = Path("/dev/kmsg")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a server with all its processes; None: unlimited."""

    cpus: float | None = None
    memory_bytes: int | None = None

    @property
    def needed(self) -> list[str]:
        """Return the names of the controllers that enforce these limits."""
        return [each for each, limit in ((CPU, self.cpus), (MEMORY, self.memory_bytes)) if limit is not None]

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
            most = server_cpu_limit()
            if not LEAST_CPUS <= _number(value) <= most:
                given = str(value).removesuffix(".0")
                raise BadInputError(
                    f"{key} {given}: expected a number from {LEAST_CPUS} to {most:g}, the CPUs for servers"
                )
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


class MissingControllerError(FileNotFoundError):
    """Raised if the system has no controller of this name, or does not pass it on to this container."""

    def __init__(self, controller: str) -> None:
        super().__init__(errno.ENOENT, f"this system has no cgroup controller {controller}")
        self.controller = controller


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

    @property
    def type(self) -> str:
        """Return the type of a group of version 2 (cgroups(7)); the root of all groups has none."""
        with contextlib.suppress(OSError):
            return (self.folder / "cgroup.type").read_text().strip()
        return ""

    def pass_on(self, controllers: Sequence[str]) -> None:
        """Let new groups below this one use the controllers (version 2).

        Raises:
            OSError: this is not permitted, or the group has processes. Then, most controllers can't be passed on, and
                the controller cpu would turn the new groups into groups of threads.
        """
        passed_on = (self.folder / "cgroup.subtree_control").read_text().split()
        if missing := [each for each in controllers if each not in passed_on]:
            if self.type and (self.folder / "cgroup.procs").read_text().strip():
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            self.write("cgroup.subtree_control", " ".join(f"+{each}" for each in missing))

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
        self._of = controllers
        self._limits = limits
        self._is_shared = is_shared

    @property
    def folders(self) -> list[Path]:
        return list(dict.fromkeys(each.folder for each in self._of.values()))

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

    def must_hold(self) -> None:
        """Raise OSError if the system does not enforce the limits.

        An older user manager of systemd accepts a quota and ignores it. A newer one may withdraw a controller later.
        """
        cpu = self._of.get(CPU)
        memory = self._of.get(MEMORY)
        limits = self._limits
        if cpu and limits.cpus is not None and not math.isclose(cpu.cpus() or 0.0, limits.cpus, abs_tol=QUOTA_STEP):
            raise OSError(errno.ENOTSUP, f"the system ignores the quota of {limits.cpus:g} CPUs")
        if memory and limits.memory_bytes is not None:
            enforced = memory.read("memory.max" if memory.is_v2 else "memory.limit_in_bytes")
            if enforced is None or abs(enforced - limits.memory_bytes) > LARGEST_PAGE:
                raise OSError(errno.ENOTSUP, f"the system ignores the limit of {limits.memory_bytes / 1e6:.0f} MB")


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
        CaseFailedError: no cgroup with these limits can be created, or the limits were not enforced to the end.
    """
    if limits == Limits():
        yield own_group()
        return
    with contextlib.ExitStack() as stack:
        try:
            group = stack.enter_context(created(limits))
        except OSError as error:
            raise CaseFailedError("no_cgroup", f"no cgroup with its limits can be created: {error.strerror}") from None
        yield group
        try:
            group.must_hold()
        except OSError as error:
            raise CaseFailedError("no_limits", f"its limits were not enforced to the end: {error.strerror}") from None


@contextlib.contextmanager
def created(limits: Limits) -> Iterator[Group]:
    """Yield a new cgroup with these limits, and remove it at the end, even if the bench is killed.

    Raises:
        OSError: there can be none; nothing is left behind.
    """
    name = f"under-siege-{uuid.uuid4().hex[:12]}"
    own = own_controllers()
    controllers = dict[str, Controller]()
    group = Group(controllers, limits)
    with contextlib.ExitStack() as stack:
        if missing := [each for each in limits.needed if each not in own]:
            raise MissingControllerError(missing[0])
        for each in limits.needed:
            new = _new_group(own[each], name, [other for other in limits.needed if own[other].is_v2])
            if new.folder not in group.folders:
                stack.enter_context(current_supervisor().removing(new.folder))
                stack.callback(_remove, new.folder)
            controllers[each] = new
        _apply(controllers, limits)
        group.must_hold()
        try:
            output_of(group.command(["true"]))
        except CommandError:
            raise PermissionError(errno.EACCES, "its processes can't enter it") from None
        yield group


def _remove(folder: Path) -> None:
    """Remove the directory of a cgroup, once its last process has ended."""
    deadline_s = time.monotonic() + REMOVAL_LIMIT_S
    while folder.exists() and time.monotonic() < deadline_s:
        with contextlib.suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.01)


def _new_group(own: Controller, name: str, needed: Sequence[str]) -> Controller:
    """Create a group; in version 2, below the nearest ancestor that may pass on all needed controllers."""
    if not own.is_v2:
        (own.folder / name).mkdir(exist_ok=True)
        return Controller(own.folder / name, own.top, is_v2=False)
    known = (own.top / "cgroup.controllers").read_text().split()
    if missing := [each for each in needed if each not in known]:
        raise MissingControllerError(missing[0])
    problem: OSError = PermissionError(errno.EACCES, "no cgroup passes on its controllers")
    for ancestor in own.groups():
        new = Controller(ancestor.folder / name, own.top, is_v2=True)
        try:
            ancestor.pass_on(needed)
            new.folder.mkdir(exist_ok=True)
            if new.type.endswith("invalid"):  # no process can enter it, because its parent has processes
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        except OSError as error:
            with contextlib.suppress(OSError):
                new.folder.rmdir()
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
