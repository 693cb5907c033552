"""Watch each process of a server under load: its CPU time, memory and connections, and when it starts and ends."""

import contextlib
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence

from under_siege.host.ports import sockets_of
from under_siege.host.process_tree import PROC, read_proc
from under_siege.host.resource_usage import Allowance, ProcessUsage
from under_siege.record.record import Record, ServerProcess, append_row
from under_siege.secrets import masked

MOST_PROCESSES = 200  # of a record; a server that starts a command for each request has many
LONGEST_COMMAND = 200
LOOK_S, LONGEST_PAUSE_S = 0.4, 1.9  # pause between two looks at sockets; reading thousands of sockets takes long
_SOCKET = re.compile(r"socket:\[(\d+)\]", re.ASCII)
_EPOLL = "anon_inode:[eventpoll]"


class ProcessWatch:
    """Add to a record what each process of the server does, whenever its usage is sampled.

    Args:
        port: on which the server listens; None if it has an address of its own.
    """

    def __init__(self, record: Record, port: int | None) -> None:
        self._record, self._port = record, port
        self._running: dict[int, ServerProcess] = {}
        self._served: set[str] = set()  # inodes of the sockets on which the server listens
        self._allowance = Allowance(0.0025, LOOK_S, LONGEST_PAUSE_S)

    def __call__(self, at_s: float, usages: Sequence[ProcessUsage]) -> None:
        """Note the processes that run at this time, which is in seconds since the load began."""
        running = [usage for usage in usages if not usage.is_zombie]
        for pid in self._running.keys() - {usage.pid for usage in running}:
            ended = self._running.pop(pid)
            ended.ended_s = round((ended.samples.at_s[-1] + at_s) / 2, 3)
        boot_s = time.clock_gettime(time.CLOCK_BOOTTIME) - at_s
        for usage in running:
            if usage.pid not in self._running and len(self._record.processes) < MOST_PROCESSES:
                self._add(usage, round(usage.started_s - boot_s, 3))
        counts: dict[int, int] = {}
        is_wanted = self._record.keep_alive or any(each.is_listening is None for each in self._running.values())
        if running and is_wanted and self._allowance.is_due:
            with self._allowance, contextlib.suppress(OSError):  # the server has just ended
                counts = self._look(running[0].pid)
        for usage in running:
            if process := self._running.get(usage.pid):
                connections = counts.get(usage.pid, -1) if self._record.keep_alive else -1
                append_row(process.samples, round(at_s, 4), round(usage.cpu_s, 5), connections)
                if usage.memory:
                    process.memory_end_bytes, _, process.private_bytes = usage.memory
                    process.memory_start_bytes = process.memory_start_bytes or process.memory_end_bytes

    def _add(self, usage: ProcessUsage, began_s: float) -> None:
        inherits = not self._served.isdisjoint(_files(usage.pid).values())  # it may end before the next look
        process = ServerProcess(
            pid=usage.pid,
            parent=usage.parent,
            command=_command(usage.pid),
            is_listening=True if inherits else None,
            began_s=began_s,
        )
        self._running[usage.pid] = process
        self._record.processes.append(process)

    def _look(self, root: int) -> dict[int, int]:
        """Read the sockets of all processes; return how many connections each process has accepted."""
        listening, connected = sockets_of(root)
        files = {pid: opened for pid in self._running if (opened := _files(pid))}  # unless it is another user's
        ports = {listening[inode] for opened in files.values() for inode in opened.values() if inode in listening}
        if self._port in ports:  # a container may publish its port under another number
            ports = {self._port}
        self._served = {inode for inode, port in listening.items() if port in ports}
        # A connection belongs to the process that has accepted it, not to children that inherit it.
        accepted = {inode for inode, port in connected.items() if port in ports}
        counts = {}
        for pid, opened in files.items():
            process = self._running[pid]
            listens_at = {number for number, inode in opened.items() if inode in self._served}
            process.command = _command(pid)  # a new process has that of its parent
            process.is_listening = bool(listens_at)
            process.accepts = process.accepts or _waits_for(pid, opened, listens_at)
            own = accepted.intersection(opened.values())
            counts[pid] = len(own)
            accepted -= own
        return counts


def _command(pid: int) -> str:
    words = read_proc(f"{pid}/cmdline").decode(errors="replace").split("\0")
    return masked(" ".join(words).strip())[:LONGEST_COMMAND]


def _files(pid: int) -> dict[str, str]:
    """Return the inode of each open socket by its descriptor, and the names of other files; empty if unreadable."""
    found: dict[str, str] = {}
    try:
        for number in os.listdir(f"{PROC}/{pid}/fd"):  # noqa: PTH208 (pathlib takes three times as long)
            with contextlib.suppress(FileNotFoundError):  # the descriptor was just closed
                name = os.readlink(f"{PROC}/{pid}/fd/{number}")  # noqa: PTH115
                match = _SOCKET.fullmatch(name)
                found[number] = match[1] if match else name
    except OSError:
        return {}
    return found


def _waits_for(pid: int, opened: Mapping[str, str], descriptors: Collection[str]) -> bool:
    """Return whether an event loop of the process waits for one of these file descriptors (proc_pid_fdinfo(5))."""
    loops = [number for number, name in opened.items() if name == _EPOLL] if descriptors else []
    return any(
        number.decode() in descriptors
        for loop in loops
        for number in re.findall(rb"^tfd: +(\d+)", read_proc(f"{pid}/fdinfo/{loop}"), re.MULTILINE)
    )
