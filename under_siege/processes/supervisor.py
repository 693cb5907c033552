"""The process that starts all others for the bench, and kills them when the bench is gone, however it ended.

Only the kernel knows all descendants of a process: some fork twice, leave their session and clear their environment.
On Linux the orphans of a subreaper's descendants become its own children (prctl(2)), so the supervisor is the parent of
all. Elsewhere it finds the processes that have the mark of the run in their environment. It waits without polling, and
so takes no CPU time from what is measured.

Lines of JSON come on a socket: `{"start": words, ...}` with three descriptors, `{"reap": pid}`, `{"folder": path}` and
`{"forget": path}`, and go back: `{"pid": ...}` or `{"error": [...]}` for each start, and
`{"ended": pid, "status": ...}` for each end.
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

RUN_MARK = "UNDER_SIEGE_RUN"  # an environment variable that all inherit
SET_CHILD_SUBREAPER = 36  # prctl(2)
LIMIT_S, LOOK_S = 10.0, 0.01  # for ending what is left
TIDY_S = 2.0  # within which Python's resource tracker has removed what those whom it follows had


class Supervisor:
    """What it has started, and the directories to remove at the end."""

    def __init__(self, bench: socket.socket, mark: str) -> None:
        self._bench, self._mark = bench, mark
        self._rest, self._descriptors = b"", list[int]()
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        self._told: set[int] = set()  # those of them that the bench knows to have ended
        self._folders: list[str] = []

    def serve(self, woken: int) -> None:
        """Do what the bench orders until its end of the socket is closed."""
        sources: list[Any] = [self._bench, woken]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if woken in ready:
                os.read(woken, 4096)
            if self._bench in ready and not self._hear():
                return
            self._look_who_ended()

    def _hear(self) -> bool:
        try:
            chunk, descriptors, _, _ = socket.recv_fds(self._bench, 65536, 16)
        except OSError:
            return False
        self._descriptors += descriptors
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        for line in whole:
            self._obey(json.loads(line))
        return bool(chunk)

    def _obey(self, order: dict[str, Any]) -> None:
        if "start" in order:
            self._start(order)
        elif "reap" in order:
            self._told.discard(order["reap"])
            self._started.pop(order["reap"]).wait()
        elif "folder" in order:
            self._folders.append(order["folder"])
        elif order["forget"] in self._folders:
            self._folders.remove(order["forget"])

    def _start(self, order: dict[str, Any]) -> None:
        ours, self._descriptors = self._descriptors[:3], self._descriptors[3:]
        stdin, stdout, stderr = ours
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
            self._tell({"error": [getattr(error, "errno", None), getattr(error, "strerror", None) or str(error)]})
        else:
            self._started[process.pid] = process
            self._tell({"pid": process.pid})
        finally:
            for descriptor in ours:
                os.close(descriptor)

    def _tell(self, what: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # it is gone, which is noticed soon
            self._bench.sendall(json.dumps(what).encode() + b"\n")

    def _look_who_ended(self) -> None:
        """Report processes that ended, which keep their pid until they are reaped, and reap all orphans."""
        for pid in self._started.keys() - self._told:
            end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if end is not None:
                self._told.add(pid)
                status = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
                self._tell({"ended": pid, "status": status})
        for pid in children(os.getpid()):
            if pid not in self._started:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def end_all(self) -> None:
        """Kill whatever is left, and remove the directories."""
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
            import shutil  # which few need, and which takes a while

            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)

    def _left(self) -> list[int]:
        """Return descendants, and processes that have the mark."""
        ours = {*descendants(os.getpid()), *who_has(RUN_MARK, self._mark)}
        return [pid for pid in ours if pid != os.getpid() and works(pid)]


def main(descriptor: int, mark: str) -> None:
    """Keeps until the socket is closed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    # Not ignored, which those that it starts would inherit: it has to outlive the bench, whatever the bench is sent.
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    supervisor = Supervisor(socket.socket(fileno=descriptor), mark)
    try:
        supervisor.serve(woken)
    finally:
        supervisor.end_all()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
