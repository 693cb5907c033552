"""A broker that outlives the server: a Redis that a drill kills and starts again, and a stock Celery worker."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from tempfile import TemporaryDirectory

from common.server_contract import path_of
from under_siege.errors import CaseFailedError
from under_siege.paths import HOST, server_environment
from under_siege.processes.managed_process import ManagedProcess, until
from under_siege.processes.ports import claimed_port, port_is_free
from under_siege.processes.process_output import Tail

PROGRAM, VARIABLE = "redis-server", "CELERY_BROKER_URL"  # the REQUIRES of a strategy, and the URL of a running one
FIRST_PORT = 16479
READY_LIMIT_S = 10.0
AWAY_S = 0.5  # between the kill and the restart
_ON_DISK = ("--appendonly", "yes", "--appendfsync", "always")  # on disk before it acknowledges a write
_IN_MEMORY = ("--appendonly", "no")


class Broker:
    """A Redis on a fixed port and directory."""

    def __init__(self, command: list[str], port: int) -> None:
        self._command, self._port = command, port
        self._started = _started(command)

    async def must_listen(self) -> None:
        """Return when it accepts connections; raise CaseFailedError if it does not."""
        listening = await until(lambda: self._started.ended() or not port_is_free(self._port), READY_LIMIT_S)
        if not listening or self._started.ended():
            raise CaseFailedError("no_service", f"{PROGRAM} does not listen on port {self._port}")

    async def kill_and_start(self) -> None:
        """Send SIGKILL and, after AWAY_S, start it again with the same port and directory."""
        os.kill(self._started.pid, signal.SIGKILL)
        await until(self._started.ended, READY_LIMIT_S)
        await self.stop()
        await asyncio.sleep(AWAY_S)
        self._started = _started(self._command)
        await self.must_listen()

    async def stop(self) -> None:
        """Stop it."""
        await self._started.stop()


def _started(command: list[str]) -> ManagedProcess:
    started = ManagedProcess(command, environment=server_environment())
    for stream in (started.process.stdout, started.process.stderr):
        Tail(stream)  # reads the output, so that the process never waits for room in the pipe
    return started


@contextlib.asynccontextmanager
async def broker_apart(python: str, workers: int | None, *, on_disk: bool) -> AsyncIterator[Broker]:
    """Start a broker and a Celery worker for every server that is started meanwhile; stop both at the end.

    Raises:
        CaseFailedError: the broker can't be started.
    """
    async with contextlib.AsyncExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory(prefix="broker-", dir=os.environ.get("TMPDIR")))
        port = int(stack.enter_context(claimed_port(FIRST_PORT)).getsockname()[1])
        listen = ["--port", str(port), "--bind", HOST, "--dir", directory, "--save", "", "--databases", "1"]
        broker = Broker([path_of(PROGRAM) or PROGRAM, *listen, *(_ON_DISK if on_disk else _IN_MEMORY)], port)
        stack.push_async_callback(broker.stop)
        stack.enter_context(_named_in_environment(f"redis://{HOST}:{port}/0"))
        await broker.must_listen()
        processes = ["--concurrency", str(workers)] if workers else []
        celery = ["celery", "--quiet", "--app", "common.kits.celery_app", "worker", *processes]
        worker = _started([python, "-P", "-m", *celery])
        stack.push_async_callback(worker.stop)
        yield broker


@contextlib.contextmanager
def _named_in_environment(url: str) -> Iterator[None]:
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = url
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before
