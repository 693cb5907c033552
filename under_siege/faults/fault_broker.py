"""A broker that outlives the server: a private Redis that a drill kills and starts again, and the workers behind it."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from common.server_contract import path_of
from under_siege.errors import CaseFailedError
from under_siege.paths import HOST, server_environment
from under_siege.processes.managed_process import ManagedProcess, until
from under_siege.processes.ports import claimed_port, port_is_free
from under_siege.processes.process_output import Tail

PROGRAM, VARIABLE = "redis-server", "CELERY_BROKER_URL"  # what a strategy REQUIRES, and where it finds one that runs
FIRST_PORT = 16479
READY_LIMIT_S = 10.0
AWAY_S = 0.5  # between its end and its new beginning
_ON_DISK = ("--appendonly", "yes", "--appendfsync", "always")  # what it has said yes to is on disk by then
_IN_MEMORY = ("--appendonly", "no")


class Broker:
    """A Redis, with a disk or without."""

    def __init__(self, words: list[str], port: int) -> None:
        self._words, self._port = words, port
        self._started = _started(words)

    @property
    def address(self) -> str:
        """Where it is."""
        return f"redis://{HOST}:{self._port}/0"

    async def must_listen(self) -> None:
        """Returns when it does; raises CaseFailedError if it does not."""
        if not await until(lambda: self._started.ended() or not port_is_free(self._port), READY_LIMIT_S):
            raise CaseFailedError("no_service", f"{PROGRAM} does not listen on port {self._port}")
        if self._started.ended():
            raise CaseFailedError("no_service", f"{PROGRAM} can't be started")

    async def kill_and_start(self) -> None:
        """SIGKILL, and after a moment the same words in the same folder."""
        os.kill(self._started.pid, signal.SIGKILL)
        await until(self._started.ended, READY_LIMIT_S)
        await self.stop()
        await asyncio.sleep(AWAY_S)
        self._started = _started(self._words)
        await self.must_listen()

    async def stop(self) -> None:
        """Ends it."""
        await self._started.stop()


def _started(words: list[str]) -> ManagedProcess:
    started = ManagedProcess(words, environment=server_environment())
    for stream in (started.process.stdout, started.process.stderr):
        Tail(stream)  # somebody has to read what it says
    return started


@contextlib.asynccontextmanager
async def broker_apart(python: str, workers: int | None, *, on_disk: bool) -> AsyncIterator[Broker]:
    """One that whatever is started meanwhile finds, and Celery workers behind it; gone at the end.

    Raises:
        CaseFailedError: it can't be started.
    """
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="broker-", dir=os.environ.get("TMPDIR")))
        port = int(stack.enter_context(claimed_port(FIRST_PORT)).getsockname()[1])
        program = path_of(PROGRAM) or PROGRAM
        place = ["--port", str(port), "--bind", HOST, "--dir", str(Path(folder)), "--save", "", "--databases", "1"]
        broker = Broker([program, *place, *(_ON_DISK if on_disk else _IN_MEMORY)], port)
        stack.callback(_set_variable(broker.address))
        work = None
        try:
            await broker.must_listen()
            processes = ["--concurrency", str(workers)] if workers else []
            celery = ["celery", "--quiet", "--app", "common.kits.celery_app", "worker", *processes]
            work = _started([python, "-P", "-m", *celery])
            yield broker
        finally:
            if work is not None:
                await work.stop()
            await broker.stop()


def _set_variable(address: str) -> Callable[[], None]:
    """Sets it; what puts it back is returned."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = address

    def put_back() -> None:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before

    return put_back
