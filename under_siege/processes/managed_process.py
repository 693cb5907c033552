"""Start processes, each in a session of its own, and stop every one of them, also at a signal."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import psutil

from common.process_tree import descendants
from under_siege.processes.supervisor import TIDY_S, inherited, is_resource_tracker, pids_with_variable
from under_siege.processes.supervisor_client import Child

MARK = "UNDER_SIEGE_PROCESS"  # an environment variable that all descendants inherit
GRACE_S = 5.0
LOOK_S = 0.01  # polling interval
CALM_LOOK_S = 0.05  # polling interval during a measurement, which polling disturbs


def how_it_ended(status: int) -> str:
    """Return `ended with exit code 1`, or, for a negative status, `was ended by SIGKILL`."""
    return f"ended with exit code {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"


class ManagedProcess:
    """A process that leads a session of its own. It and its descendants descend from the supervisor."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.PIPE,
        may_hide: bool = True,
        folder: Path | None = None,
    ) -> None:
        self._mark, self._may_hide = uuid.uuid4().hex, may_hide
        self.process = Child(command, {**environment, MARK: self._mark}, stdin=stdin, stdout=stdout, folder=folder)
        self.pid = self.process.pid
        self._began_s = psutil.Process(self.pid).create_time()  # the process exists until it is reaped

    def ended(self) -> bool:
        """Return whether it has ended. It is not reaped yet, so its pid can't be reused."""
        return self.process.poll() is not None

    async def wait(self, limit_s: float, look_s: float = LOOK_S) -> bool:
        """Return whether it ended within the limit."""
        return await until(self.ended, limit_s, look_s)

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """Send SIGTERM, wait, then send SIGKILL to the group and to processes that left it."""
        if not self.ended():
            self.process.terminate()
            await self.wait(grace_s)
        left = self._left() if self._may_hide else []
        # Python's resource trackers remove the semaphores of the other processes, once these have ended.
        if trackers := [process for process in left if is_resource_tracker(process.pid)]:
            _kill(process for process in left if process not in trackers)
            await until(lambda: not any(map(_works, trackers)), TIDY_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM if only zombies are left
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        deadline_s = time.monotonic() + GRACE_S
        while (left := self._left()) and time.monotonic() < deadline_s:
            _kill(left)
            await until(lambda: not any(map(_works, left)), deadline_s - time.monotonic())
        self.process.close()
        self.process.supervisor.end_if_idle()

    def _left(self) -> list[psutil.Process]:
        """Return the processes that have the mark, and orphans without any mark that the supervisor inherited since.

        The latter have cleared their environment. Nobody knows which process started them, except that it was none
        that is known never to hide any.
        """
        left = processes(pids_with_variable(MARK, self._mark))
        if self._may_hide:
            for orphan in self.process.supervisor.orphans():
                with contextlib.suppress(psutil.Error):
                    if orphan.create_time() >= self._began_s and inherited(orphan.pid, MARK) is None:
                        left += [orphan, *offspring(orphan.pid)]
        return [process for process in left if _works(process)]


def offspring(pid: int) -> list[psutil.Process]:
    """Return its descendants that still exist."""
    return processes(descendants(pid))


def processes(pids: Iterable[int]) -> list[psutil.Process]:
    """Return those that still exist."""
    existing = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            existing.append(psutil.Process(pid))
    return existing


def _kill(targets: Iterable[psutil.Process]) -> None:
    for process in targets:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _works(process: psutil.Process) -> bool:
    """Return whether it exists and is no zombie, which only its parent can remove."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


async def until(condition: Callable[[], bool], limit_s: float, look_s: float = LOOK_S) -> bool:
    """Return whether the condition came true within the limit (which may be `math.inf`)."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return False
        await asyncio.sleep(min(look_s, left_s))
    return True


def until_signal(work: Coroutine[Any, Any, None]) -> int | None:
    """Do the work; cancel it at the first SIGINT or SIGTERM, and return the number of that signal.

    Cancelling reaches the work only where it awaits, so no process is started and then forgotten, and only once, so
    that a second signal does not interrupt the cleanup.
    """
    stopped_by: list[int] = []

    async def supervised() -> None:
        task, loop = asyncio.ensure_future(work), asyncio.get_running_loop()

        def stop(number: int) -> None:
            if not stopped_by:
                stopped_by.append(number)
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
        try:
            await task
        except asyncio.CancelledError:
            if not stopped_by:
                raise

    asyncio.run(supervised())
    return stopped_by[0] if stopped_by else None
