"""The bench's end of the socket to its supervisor, which starts all processes."""

import atexit
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from under_siege.host.process_tree import children
from under_siege.host.supervisor import KILL_LIMIT_S, MOST_BYTES
from under_siege.paths import PACKAGE

ANSWER_TIMEOUT_S = 0.5
SUPERVISOR = str(Path(__file__).with_name("supervisor.py"))
LOST = {"error": [errno.ESRCH, "the supervisor was killed"]}


class SupervisorClient:
    """The bench's end of the socket to the supervisor."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(ANSWER_TIMEOUT_S)
        self._lock = threading.Lock()
        self._started: set[int] = set()  # processes that are not reaped yet
        self.folders: list[Path] = []  # directories to remove if the bench is killed
        self._at_end = 0  # number of commands to run if the bench is killed
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-S", SUPERVISOR, str(theirs.fileno())],  # -S speeds up the start
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.pid = self._process.pid
        atexit.register(self._close)

    def _close(self) -> None:
        atexit.unregister(self._close)
        self._socket.close()
        self._process.send_signal(signal.SIGCONT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(KILL_LIMIT_S + 1)

    def is_lost(self) -> bool:
        """Return whether the supervisor has ended, perhaps killed by a process that it started."""
        return self._process.poll() is not None

    def start(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        descriptors: Sequence[int],
        folder: Path | None,
        cpus: Collection[int],
    ) -> int:
        """Start a process in `folder`, by default the current directory; return its pid, or raise OSError."""
        order = {
            "start": list(argv),
            "environment": dict(environment),
            "folder": str(folder or Path.cwd()),
            "cpus": sorted(cpus),
        }
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(order).encode()], descriptors)
            answer = self._answer()
        if "error" in answer:
            self.end_if_idle()
            raise OSError(*answer["error"], argv[0])
        self._started.add(answer["pid"])
        return int(answer["pid"])

    def _answer(self) -> dict[str, Any]:
        while True:
            try:
                message = self._socket.recv(MOST_BYTES)
            except TimeoutError:
                self._process.send_signal(signal.SIGCONT)  # another process may have stopped it
            except ConnectionError:
                return LOST
            else:
                return json.loads(message) if message else LOST

    def reap(self, pid: int) -> None:
        """Let the system reuse the pid of a process that has ended."""
        self._started.discard(pid)
        self._send({"reap": pid})  # last, because another thread may then start a process with the same pid

    def end_if_idle(self) -> None:
        """If the supervisor has nothing left to supervise, end it and all processes that it has inherited."""
        if not self._started and not self.folders and not self._at_end:
            self._close()

    def orphans(self) -> list[psutil.Process]:
        """Return the processes that the supervisor has inherited but not started."""
        orphans = []
        for pid in children(self.pid):
            with contextlib.suppress(psutil.NoSuchProcess):  # the process has just ended
                if pid not in self._started:
                    orphans.append(psutil.Process(pid))
        return orphans

    @contextlib.contextmanager
    def removing(self, folder: Path) -> Iterator[None]:
        """Let the supervisor remove the directory if the bench is killed while the context is active."""
        self._send({"folder": str(folder)})
        self.folders.append(folder)
        try:
            yield
        finally:
            self.folders.remove(folder)
            self._send({"forget": str(folder)})
            self.end_if_idle()

    @contextlib.contextmanager
    def running_at_the_end(self, command: Sequence[str], environment: Mapping[str, str]) -> Iterator[None]:
        """Let the supervisor run the command if the bench is killed while the context is active."""
        order = {"command": list(command), "environment": dict(environment)}
        self._send({"at_end": order})
        self._at_end += 1
        try:
            yield
        finally:
            self._at_end -= 1
            self._send({"forget": order})
            self.end_if_idle()

    def _send(self, order: dict[str, Any]) -> None:
        with self._lock, contextlib.suppress(OSError):  # the supervisor may have died
            self._socket.send(json.dumps(order).encode())


_SUPERVISORS: list[SupervisorClient] = []


def current_supervisor() -> SupervisorClient:
    """Return the supervisor of this process; start it on first use, or again if it was killed."""
    if not _SUPERVISORS or _SUPERVISORS[-1].is_lost():
        _SUPERVISORS.append(SupervisorClient())
    return _SUPERVISORS[-1]


@contextlib.contextmanager
def another_supervisor() -> Iterator[None]:
    """Use a new supervisor while the context is active, then return to the former one.

    The new supervisor removes the same directories, because the processes that it kills may still write into them.
    """
    former = _SUPERVISORS[:]
    _SUPERVISORS[:] = [SupervisorClient()]
    try:
        with contextlib.ExitStack() as stack:
            for folder in [folder for supervisor in former for folder in supervisor.folders]:
                stack.enter_context(_SUPERVISORS[0].removing(folder))
            yield
    finally:
        for supervisor in _SUPERVISORS:
            supervisor.end_if_idle()
        _SUPERVISORS[:] = former
