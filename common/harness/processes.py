"""Processes that are started here: each in a session of its own, and every one of them ended again."""

import asyncio
import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import IO

import psutil

MARK = "UNDER_SIEGE_PROCESS"  # an environment variable that children inherit, wherever they hide
GRACE_S = 5.0
LOOK_S = 0.01  # between two looks while something is awaited
CALM_LOOK_S = 0.05  # while a measurement is on, which every look disturbs


class Started:
    """A process that leads a session of its own."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.PIPE,
    ) -> None:
        self._mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            env={**environment, MARK: self._mark},
            start_new_session=True,
        )
        self.pid = self.process.pid

    def ended(self) -> bool:
        """Whether it has ended. It is not reaped yet, so that its number can't become someone else's."""
        if self.process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    async def wait(self, limit_s: float, look_s: float = LOOK_S) -> bool:
        """Whether it ended within the limit."""
        return await until(self.ended, limit_s, look_s)

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """SIGTERM, time to finish, then SIGKILL to the group and to whoever left it. Nothing is left after."""
        if not self.ended():
            self.process.terminate()
            await self.wait(grace_s)
        with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS: EPERM if only zombies are left
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()
        left = [process for process in psutil.process_iter() if self._is_ours(process)]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        await until(lambda: not any(_works(process) for process in left), GRACE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(MARK) == self._mark
        except (psutil.Error, OSError):
            return False  # gone, a zombie, or someone else's


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
