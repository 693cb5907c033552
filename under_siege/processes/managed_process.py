"""Processes that are started here: each in a session of its own, and every one of them ended again."""

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

from common.process_tree import descendants, inherited, is_tracker, who_has
from under_siege.processes.supervisor import TIDY_S
from under_siege.processes.supervisor_client import Child

MARK = "UNDER_SIEGE_PROCESS"  # an environment variable that children inherit, wherever they hide
GRACE_S = 5.0
LOOK_S = 0.01  # between two looks while something is awaited
CALM_LOOK_S = 0.05  # while a measurement is on, which every look disturbs


def how_it_ended(status: int) -> str:
    """`ended with exit code 1`, `was ended by SIGKILL`; negative are signals."""
    return f"ended with exit code {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"


class ManagedProcess:
    """A process that leads a session of its own. It, and all that it starts in turn, descends from the keeper."""

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
        self.process = Child(
            command,
            {**environment, MARK: self._mark},
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            folder=folder,
        )
        self.pid = self.process.pid
        self._began_s = psutil.Process(self.pid).create_time()  # it is there until it is reaped

    def ended(self) -> bool:
        """Whether it has ended. It is not reaped yet, so that its number can't become someone else's."""
        return self.process.poll() is not None

    async def wait(self, limit_s: float, look_s: float = LOOK_S) -> bool:
        """Whether it ended within the limit."""
        return await until(self.ended, limit_s, look_s)

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """SIGTERM, time to finish, then SIGKILL to the group and to whoever left it. Nothing is left after."""
        if not self.ended():
            self.process.terminate()
            await self.wait(grace_s)
        if self._may_hide:
            await self._let_tidy()
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM if only zombies are left
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        deadline_s = time.monotonic() + GRACE_S
        while (left := self._left()) and time.monotonic() < deadline_s:
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            await until(lambda: not any(map(_works, left)), deadline_s - time.monotonic())
        self.process.close()
        self.process.keeper.end_if_idle()

    async def _let_tidy(self) -> None:
        """Ends all but Python's resource trackers, which then remove the semaphores of those."""
        left = self._left()
        if trackers := [process for process in left if is_tracker(process.pid)]:
            for process in left:
                with contextlib.suppress(psutil.Error):
                    if process not in trackers:
                        process.kill()
            await until(lambda: not any(map(_works, trackers)), TIDY_S)

    def _left(self) -> list[psutil.Process]:
        """Who has the mark; and those without any that became children of the keeper since this was started.

        They have cleared their environment. Which of several has started them nobody knows any more: not those that
        never hide anybody.
        """
        left = processes(who_has(MARK, self._mark))
        if self._may_hide:
            for orphan in self.process.keeper.orphans():
                with contextlib.suppress(psutil.Error):
                    if orphan.create_time() >= self._began_s and inherited(orphan.pid, MARK) is None:
                        left += [orphan, *offspring(orphan.pid)]
        return [process for process in left if _works(process)]


def offspring(pid: int) -> list[psutil.Process]:
    """Its children, theirs, and so on, as far as they are still there."""
    return processes(descendants(pid))


def processes(pids: Iterable[int]) -> list[psutil.Process]:
    """Those that are still there."""
    found = []
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return found


def _works(process: psutil.Process) -> bool:
    """Whether it is still there and no zombie, which only its parent can remove."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


async def until(condition: Callable[[], bool], limit_s: float, look_s: float = LOOK_S) -> bool:
    """Whether the condition came true within the limit (which may be `math.inf`); looks that often."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return False
        await asyncio.sleep(min(look_s, left_s))
    return True


def until_signal(work: Coroutine[Any, Any, None]) -> int | None:
    """Do the work; cancel it at the first SIGINT or SIGTERM, and return the number of that signal.

    Cancelling reaches the work only where it waits, so that no process is started and then forgotten,
    and only once, so that impatience does not interrupt the cleaning up.
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
