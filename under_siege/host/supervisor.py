"""Start all processes of the bench, and kill them when the bench has ended, for whatever reason.

The supervisor is a subreaper (prctl(2)): it adopts the orphans among its descendants, even those that have forked
twice, left their session and cleared their environment. It waits without polling, so it uses no CPU time during a
measurement.

Orders are messages of JSON on a socket: `{"start": argv, ...}` with three descriptors, `{"reap": pid}`,
`{"folder": path}`, `{"at_end": argv}` and `{"forget": path or argv}`. The supervisor answers only `start`, with
`{"pid": ...}` or `{"error": [...]}`. It ends when the bench's end of the socket is closed.
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

from under_siege.host.process_tree import children, descendants, is_resource_tracker, is_running

MOST_BYTES = 1 << 18  # maximum size of a message; Linux sends no longer ones by default
SET_CHILD_SUBREAPER = 36  # prctl(2)
KILL_LIMIT_S, LOOK_S = 10.0, 0.01  # timeout for killing the remaining processes; polling interval
COMMAND_LIMIT_S = 30.0  # timeout of a command at the end
TRACKER_LIMIT_S = 2.0  # maximum time for Python's resource trackers to remove the semaphores of killed processes


class Supervisor:
    """Start processes, and remember the directories to remove and the commands to run at the end."""

    def __init__(self, bench: socket.socket) -> None:
        self._bench = bench
        self._started: dict[int, subprocess.Popen[bytes]] = {}  # processes that are not reaped yet
        self._folders: list[str] = []
        self._at_end: list[dict[str, Any]] = []  # commands and their environments

    def serve(self, woken: int) -> None:
        """Carry out orders until the bench's end of the socket is closed; reap orphans that have ended."""
        sources: list[Any] = [self._bench, woken]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if woken in ready:
                os.read(woken, 4096)
                self._reap_orphans()
            if self._bench in ready:
                message, descriptors, _, _ = socket.recv_fds(self._bench, MOST_BYTES, 3)
                if not message:
                    return
                self._carry_out(json.loads(message), descriptors)

    def _carry_out(self, order: dict[str, Any], descriptors: list[int]) -> None:
        if "start" in order:
            self._bench.send(json.dumps(self._start(order, *descriptors)).encode())
        elif "reap" in order:
            self._started.pop(order["reap"]).wait()
        elif "folder" in order:
            self._folders.append(order["folder"])
        elif "at_end" in order:
            self._at_end.append(order["at_end"])
        elif isinstance(order["forget"], str):
            self._folders.remove(order["forget"])
        else:
            self._at_end.remove(order["forget"])

    def _start(self, order: dict[str, Any], stdin: int, stdout: int, stderr: int) -> dict[str, Any]:
        try:
            if os.sched_getaffinity(0) != set(order["cpus"]):
                os.sched_setaffinity(0, order["cpus"])  # the process inherits it
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
            return {"error": [getattr(error, "errno", None), getattr(error, "strerror", None) or str(error)]}
        finally:
            for descriptor in (stdin, stdout, stderr):
                os.close(descriptor)
        self._started[process.pid] = process
        return {"pid": process.pid}

    def _reap_orphans(self) -> None:
        """Reap orphans that have ended. Processes that the bench has started keep their pids until it orders `reap`."""
        for pid in children(os.getpid()):
            if pid not in self._started:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def end_all(self) -> None:
        """Kill all remaining processes, run the commands, and remove the directories."""
        began_s = time.monotonic()
        while (left := _left()) and (for_s := time.monotonic() - began_s) < KILL_LIMIT_S:
            for pid in left:
                with contextlib.suppress(OSError):
                    if for_s > TRACKER_LIMIT_S or not is_resource_tracker(pid):
                        os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(LOOK_S)
        for order in self._at_end:
            command, environment = order["command"], order["environment"]
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(
                    command, env=environment, check=False, timeout=COMMAND_LIMIT_S, stdout=subprocess.DEVNULL
                )
        if self._folders:
            import shutil  # a slow import that is rarely needed

            for folder in self._folders:
                shutil.rmtree(folder, ignore_errors=True)


def _left() -> list[int]:
    """Return the ids of all descendants that are still running."""
    return [pid for pid in descendants(os.getpid()) if is_running(pid)]


def main(descriptor: int) -> None:
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    # The supervisor must outlive the bench, so it handles signals. It can't ignore them: children inherit SIG_IGN.
    for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    supervisor = Supervisor(socket.socket(fileno=descriptor))
    try:
        supervisor.serve(woken)
    finally:
        supervisor.end_all()


if __name__ == "__main__":
    main(int(sys.argv[1]))
