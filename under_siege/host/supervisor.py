"""Start all processes of the bench, and kill them when the bench has ended, for whatever reason.

Descendants are hard to find: some fork twice, leave their session and clear their environment. On Linux, the orphans
among a subreaper's descendants become its children (prctl(2)), so the supervisor adopts all of them. On other systems,
it finds the processes that have the mark of the run in their environment. The supervisor waits without polling, so it
uses no CPU time during a measurement.

Orders are lines of JSON on a socket: `{"start": argv, ...}` with three descriptors, `{"reap": pid}`, `{"folder": path}`
and `{"forget": path}`. The supervisor answers each start with `{"pid": ...}` or `{"error": [...]}`, and reports
`{"ended": pid, "status": ...}`.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any

from under_siege.host.process_tree import HAS_CHILDREN_FILES, PROC, children, descendants, read_proc

if not HAS_CHILDREN_FILES:
    import psutil

RUN_MARK = "UNDER_SIEGE_RUN"  # an environment variable that all descendants inherit
SET_CHILD_SUBREAPER = 36  # prctl(2)
LIMIT_S, LOOK_S = 10.0, 0.01  # timeout for killing the remaining processes; polling interval
TIDY_S = 2.0  # maximum time for Python's resource trackers to remove the semaphores of killed processes


class Supervisor:
    """Start and watch processes, and remember the directories to remove at the end."""

    def __init__(self, bench: socket.socket, mark: str) -> None:
        self._bench, self._mark = bench, mark
        self._rest, self._descriptors = b"", list[int]()
        self._started: dict[int, subprocess.Popen[bytes]] = {}  # processes that are not reaped yet
        self._running: set[int] = set()  # processes whose end is not reported yet
        self._folders: list[str] = []

    def serve(self, woken: int) -> None:
        """Carry out orders until the bench's end of the socket is closed."""
        sources: list[Any] = [self._bench, woken]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if woken in ready:
                os.read(woken, 4096)
            if self._bench in ready and not self._receive():
                return
            self._report_ended()

    def _receive(self) -> bool:
        """Carry out the orders received; return whether the socket is still open."""
        try:
            chunk, descriptors, _, _ = socket.recv_fds(self._bench, 65536, 16)
        except OSError:
            return False
        self._descriptors += descriptors
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for order in map(json.loads, lines):
            if "start" in order:
                self._start(order)
            elif "reap" in order:
                self._started.pop(order["reap"]).wait()
                self._running.discard(order["reap"])
            elif "folder" in order:
                self._folders.append(order["folder"])
            else:
                self._folders.remove(order["forget"])
        return bool(chunk)

    def _start(self, order: dict[str, Any]) -> None:
        descriptors, self._descriptors = self._descriptors[:3], self._descriptors[3:]
        stdin, stdout, stderr = descriptors
        try:
            process = subprocess.Popen(
                order["start"],
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=order["environment"],
                cwd=order["folder"],
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._send({"error": [getattr(error, "errno", None), getattr(error, "strerror", None) or str(error)]})
        else:
            self._started[process.pid] = process
            self._running.add(process.pid)
            self._send({"pid": process.pid})
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the bench is gone, which `serve` notices next
            self._bench.sendall(json.dumps(message).encode() + b"\n")

    def _report_ended(self) -> None:
        """Report processes that have ended, but don't reap them, so that they keep their pids; reap all orphans."""
        for pid in list(self._running):
            end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if end is not None:
                self._running.remove(pid)
                status = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
                self._send({"ended": pid, "status": status})
        for pid in children(os.getpid()):
            if pid not in self._started:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def end_all(self) -> None:
        """Kill all remaining processes, and remove the directories."""
        began_s = time.monotonic()
        while (left := self._left()) and (for_s := time.monotonic() - began_s) < LIMIT_S:
            for pid in left:
                with contextlib.suppress(OSError):
                    if for_s > TIDY_S or not is_resource_tracker(pid):
                        os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(LOOK_S)
        if self._folders:
            import shutil  # a slow import that is rarely needed

            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)

    def _left(self) -> list[int]:
        """Return the ids of all descendants, and of all processes with the mark."""
        pids = {*descendants(os.getpid()), *pids_with_variable(RUN_MARK, self._mark)}
        return [pid for pid in pids if pid != os.getpid() and is_running(pid)]


def pids_with_variable(name: str, value: str) -> list[int]:
    """Return the ids of all processes that started with this value of the variable and have a readable environment."""
    if not HAS_CHILDREN_FILES:
        return [pid for pid in psutil.pids() if inherited(pid, name) == value]
    wanted = f"{name}={value}".encode()
    pids = [int(entry) for entry in os.listdir(PROC) if entry.isdecimal()]  # noqa: PTH208 (importing pathlib is slow)
    return [pid for pid in pids if wanted in read_proc(f"{pid}/environ").split(b"\0")]


def inherited(pid: int, name: str) -> str | None:
    """Return the value of an environment variable at the start of the process, or None if it is unset or unreadable."""
    if not HAS_CHILDREN_FILES:
        try:
            return psutil.Process(pid).environ().get(name)
        except (psutil.Error, OSError):
            return None
    start = f"{name}=".encode()
    for entry in read_proc(f"{pid}/environ").split(b"\0"):
        if entry.startswith(start):
            return entry.removeprefix(start).decode(errors="surrogateescape")
    return None


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie, which only its parent can remove."""
    if not HAS_CHILDREN_FILES:
        try:
            return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False
    return read_proc(f"{pid}/stat").rpartition(b")")[2].split()[:1] not in ([], [b"Z"], [b"X"])


def is_resource_tracker(pid: int) -> bool:
    """Return whether the process is a Python resource tracker, which exits after the processes that it serves."""
    if HAS_CHILDREN_FILES:
        return b"multiprocessing.resource_tracker" in read_proc(f"{pid}/cmdline")
    try:
        return any("multiprocessing.resource_tracker" in argument for argument in psutil.Process(pid).cmdline())
    except (psutil.Error, OSError):
        return False


def main(descriptor: int, mark: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    # The supervisor must outlive the bench, so it handles signals. It can't ignore them: children inherit SIG_IGN.
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    supervisor = Supervisor(socket.socket(fileno=descriptor), mark)
    try:
        supervisor.serve(woken)
    finally:
        supervisor.end_all()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
