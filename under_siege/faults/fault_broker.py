"""Start a broker that outlives the server: a Redis that the drill can kill and restart, and a stock Celery worker."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from tempfile import TemporaryDirectory

from common.server_contract import path_of
from under_siege.model.record import CaseFailedError
from under_siege.paths import HOST, environment_variable, server_environment
from under_siege.processes.managed_process import ManagedProcess, until
from under_siege.processes.ports import claimed_port, port_is_free
from under_siege.processes.process_output import Tail

PROGRAM, VARIABLE = "redis-server", "CELERY_BROKER_URL"  # strategies with a broker require PROGRAM and read VARIABLE
FIRST_PORT = 16479
READY_LIMIT_S = 10.0
RESTART_DELAY_S = 0.5
_ON_DISK = ("--appendonly", "yes", "--appendfsync", "always")  # a write is on disk before it is acknowledged
_IN_MEMORY = ("--appendonly", "no")


class RestartableBroker:
    """A Redis on a fixed port and directory."""

    def __init__(self, command: list[str], port: int) -> None:
        self._command, self._port = command, port
        self._process = _start(command)

    async def wait_until_ready(self) -> None:
        """Wait until the broker accepts connections; raise CaseFailedError if it does not within READY_LIMIT_S."""
        listening = await until(lambda: self._process.ended() or not port_is_free(self._port), READY_LIMIT_S)
        if not listening or self._process.ended():
            raise CaseFailedError("no_service", f"{PROGRAM} does not listen on port {self._port}; check that it starts")

    async def kill_and_restart(self) -> None:
        """Send SIGKILL to the broker, and restart it after RESTART_DELAY_S with the same port and directory."""
        os.kill(self._process.pid, signal.SIGKILL)
        await until(self._process.ended, READY_LIMIT_S)
        await self.stop()
        await asyncio.sleep(RESTART_DELAY_S)
        self._process = _start(self._command)
        await self.wait_until_ready()

    async def stop(self) -> None:
        await self._process.stop()


def _start(command: list[str]) -> ManagedProcess:
    managed = ManagedProcess(command, environment=server_environment())
    for stream in (managed.process.stdout, managed.process.stderr):
        Tail(stream)  # drains the pipe, so that the process never blocks on it
    return managed


@contextlib.asynccontextmanager
async def separate_broker(python: str, workers: int | None, *, on_disk: bool) -> AsyncIterator[RestartableBroker]:
    """Run a broker and a Celery worker for all servers that start inside the context; stop both at the end.

    Raises:
        CaseFailedError: the broker does not start.
    """
    async with contextlib.AsyncExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory(prefix="broker-", dir=os.environ.get("TMPDIR")))
        port = int(stack.enter_context(claimed_port(FIRST_PORT)).getsockname()[1])
        listen = ["--port", str(port), "--bind", HOST, "--dir", directory, "--save", "", "--databases", "1"]
        broker = RestartableBroker([path_of(PROGRAM) or PROGRAM, *listen, *(_ON_DISK if on_disk else _IN_MEMORY)], port)
        stack.push_async_callback(broker.stop)
        stack.enter_context(environment_variable(VARIABLE, f"redis://{HOST}:{port}/0"))
        await broker.wait_until_ready()
        processes = ["--concurrency", str(workers)] if workers else []
        celery = ["celery", "--quiet", "--app", "common.kits.celery_app", "worker", *processes]
        worker = _start([python, "-P", "-m", *celery])
        stack.push_async_callback(worker.stop)
        yield broker
