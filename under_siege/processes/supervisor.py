"""The process that starts all others for the bench, and kills them when the bench is gone, however it ended.

Only the kernel knows all descendants of a process: some fork twice, leave their session and clear their environment.
On Linux the orphans of a subreaper's descendants become its own children (prctl(2)), so the supervisor is the parent of
all. Elsewhere it finds the processes that have the mark of the run in their environment. It waits without polling, and
so takes no CPU time from what is measured.

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

from common.process_tree import children, descendants, is_tracker, who_has, works

RUN_MARK = "UNDER_SIEGE_RUN"  # an environment variable that all descendants inherit
SET_CHILD_SUBREAPER = 36  # prctl(2)
LIMIT_S, LOOK_S = 10.0, 0.01  # for killing the processes that are left
TIDY_S = 2.0  # enough for Python's resource tracker to remove the semaphores of processes that were killed


class Supervisor:
    """The processes that it has started, and the directories to remove at the end."""

    def __init__(self, bench: socket.socket, mark: str) -> None:
        self._bench, self._mark = bench, mark
        self._rest, self._descriptors = b"", list[int]()
        self._started: dict[int, subprocess.Popen[bytes]] = {}  # until they are reaped
        self._running: set[int] = set()  # until their end is reported
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
        """Carry out the orders that have come; return whether the socket is still open."""
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
        """Report processes that ended, which keep their pid until they are reaped, and reap all orphans."""
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
        """Kill every process that is left, and remove the directories."""
        began_s = time.monotonic()
        while (left := self._left()) and (for_s := time.monotonic() - began_s) < LIMIT_S:
            for pid in left:
                with contextlib.suppress(OSError):
                    if for_s > TIDY_S or not is_tracker(pid):
                        os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(LOOK_S)
        if self._folders:
            import shutil  # takes a while, and is rarely needed

            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)

    def _left(self) -> list[int]:
        """Return descendants, and processes that have the mark."""
        pids = {*descendants(os.getpid()), *who_has(RUN_MARK, self._mark)}
        return [pid for pid in pids if pid != os.getpid() and works(pid)]


def main(descriptor: int, mark: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    # The supervisor has to outlive the bench, whatever signal that gets. Its children would inherit SIG_IGN.
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    supervisor = Supervisor(socket.socket(fileno=descriptor), mark)
    try:
        supervisor.serve(woken)
    finally:
        supervisor.end_all()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
