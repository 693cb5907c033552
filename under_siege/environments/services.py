"""Services that servers need: a private PostgreSQL and Redis, started for the run, and gone with it."""

import asyncio
import contextlib
import os
import pwd
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from common.server_contract import install_command
from under_siege.errors import CaseFailedError
from under_siege.model.record import Record
from under_siege.monitors.resource_usage import tree_usage
from under_siege.paths import HOST
from under_siege.processes.managed_process import ManagedProcess, how_it_ended, until
from under_siege.processes.ports import claimed_port
from under_siege.processes.process_output import Tail
from under_siege.processes.supervisor_client import kept

READY_LIMIT_S = 30.0
NAME = "under_siege"  # of the user and of the database
NOBODY = ("postgres", "redis", "nobody")  # as whom a service runs where the bench is root; the first that there is


@dataclass(frozen=True, slots=True)
class Service:
    """How one is started: its programs, and their arguments for a folder and a port."""

    name: str
    programs: tuple[str, ...]
    prepare: Callable[[str, Path], list[str]] | None
    command: Callable[[str, Path, int], list[str]]
    address: str  # with the port in braces
    first_port: int


def _initdb(program: str, folder: Path) -> list[str]:
    options = f"--username {NAME} --auth trust --no-sync --encoding UTF8"
    return [program, "--pgdata", str(folder / "data"), *options.split()]


def _postgres(program: str, folder: Path, port: int) -> list[str]:
    settings = {
        "listen_addresses": HOST,
        "unix_socket_directories": str(folder),
        "dynamic_shared_memory_type": "mmap",  # files of the folder, which go with it
        "fsync": "off",
        "max_connections": "300",
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return [program, "-D", str(folder / "data"), "-p", str(port), *options]


def _redis(program: str, folder: Path, port: int) -> list[str]:
    return [program, "--port", str(port), "--bind", HOST, "--dir", str(folder), "--save", "", "--appendonly", "no"]


SERVICES = {
    "postgresql": Service(
        "postgresql", ("initdb", "postgres"), _initdb, _postgres, f"postgresql://{NAME}@{HOST}:{{port}}/postgres", 15432
    ),
    "redis": Service("redis", ("redis-server",), None, _redis, f"redis://{HOST}:{{port}}/0", 16379),
}


_TELLS_WHY = re.compile(r"\b(error|fatal|panic|could not|can't)\b", re.IGNORECASE)


class Services:
    """Those that run, by name. Each starts when it is first needed, and again if it died."""

    def __init__(self, stack: contextlib.AsyncExitStack | None = None) -> None:
        self._stack = stack or contextlib.AsyncExitStack()
        self._running: dict[str, _Running] = {}

    async def addresses(self, needs: Sequence[str]) -> dict[str, str]:
        """Return where those of them listen that are services.

        Raises:
            CaseFailedError: one is not installed, or can't be started.
        """
        found = {}
        for name in needs:
            if name not in SERVICES:
                continue
            if name not in self._running or self._running[name].started.ended():
                self._running[name] = await self._stack.enter_async_context(_running(SERVICES[name]))
            found[name] = self._running[name].address
        return found

    async def must_live(self, needs: Sequence[str]) -> None:
        """Return if all of them that are services still run.

        Raises:
            CaseFailedError: one has died.
        """
        for name in needs:
            running = self._running.get(name)
            if running is not None and (status := running.started.process.poll()) is not None:
                said = f"{how_it_ended(status)} meanwhile{running.last_line()}"
                raise CaseFailedError("service_died", f"{name}, which the server needs, {said}")

    def cpu_s(self, needs: Sequence[str]) -> float | None:
        """Return the CPU time that those of them have used that run; None if none does."""
        running = [self._running[name].started.pid for name in needs if name in self._running]
        used = [usage.cpu_s for pid in running if (usage := tree_usage(pid, memory=False)) is not None]
        return sum(used) if used else None

    @contextlib.contextmanager
    def watching(self, needs: Sequence[str], record: Record) -> Iterator[None]:
        """Write into the record what they use while the body runs."""
        before_s = self.cpu_s(needs)
        try:
            yield
        finally:
            after_s = self.cpu_s(needs)
            if before_s is not None and after_s is not None:
                record.services_cpu_s = max(0.0, round(after_s - before_s, 4))


@dataclass(frozen=True, slots=True)
class _Running:
    started: ManagedProcess
    said: tuple[Tail, Tail]
    address: str

    def last_line(self) -> str:
        lines = [line for tail in self.said for line in tail.text().splitlines() if line.strip()]
        return f"; its last line: {lines[-1].strip()[:200]}" if lines else ""

    def last_error(self) -> str:
        """Return why a start failed, which may not be the last line."""
        lines = [line for tail in self.said for line in tail.text().splitlines() if _TELLS_WHY.search(line)]
        return f"; it says: {lines[-1].strip()[:200]}" if lines else self.last_line()


@contextlib.asynccontextmanager
async def services() -> AsyncIterator[Services]:
    """Yield services, none of which runs yet; stop at the end those that run then."""
    async with contextlib.AsyncExitStack() as stack:
        yield Services(stack)


@contextlib.asynccontextmanager
async def _running(service: Service) -> AsyncIterator[_Running]:
    programs = [_program(service, name) for name in service.programs]
    as_user, uid = _unprivileged()
    with contextlib.ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix=f"{service.name}-", dir="/tmp", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(temporary))
        stack.enter_context(kept().removing(folder))
        if uid is not None:
            os.chown(folder, uid, -1)
        claim = stack.enter_context(claimed_port(service.first_port))
        port = int(claim.getsockname()[1])
        environment = {**os.environ, "TMPDIR": str(folder), "HOME": str(folder), "LC_ALL": "C"}
        if service.prepare is not None:
            await _done([*as_user, *service.prepare(programs[0], folder)], environment, service.name, folder)
        started = ManagedProcess(
            [*as_user, *service.command(programs[-1], folder, port)], environment=environment, folder=folder
        )
        try:
            said = Tail(started.process.stdout), Tail(started.process.stderr)
            running = _Running(started, said, service.address.format(port=port))
            await _answering(running, service.name, port)
            yield running
        finally:
            await started.stop()


def _program(service: Service, name: str) -> str:
    """Return its path; Debian keeps those of PostgreSQL where no PATH leads."""
    known = Path("/usr/lib/postgresql").glob(f"[0-9]*/bin/{name}")
    newest = max(known, key=lambda path: Version(path.parts[4]), default=None)
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin") or newest
    if found is None:
        how = install_command(service.name)
        raise CaseFailedError("missing_program", f"{service.name} is not installed; install it with: {how}")
    return str(found)


def _unprivileged() -> tuple[list[str], int | None]:
    """Return the words that give up all privileges, and the user id after that; none if there are none to give up.

    In a namespace of its own the shared memory of a killed PostgreSQL goes with it.
    """
    if os.getuid() != 0:
        return [], None
    known = {user.pw_name: user for user in pwd.getpwall()}
    user = next((known[name] for name in NOBODY if name in known), None)
    if user is None or shutil.which("setpriv") is None:
        raise CaseFailedError("no_service", "no user other than root to run a service as: expected nobody, and setpriv")
    own_memory = ["unshare", "--ipc"] if shutil.which("unshare") else []
    return [*own_memory, "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"], user.pw_uid


async def _done(command: list[str], environment: dict[str, str], name: str, folder: Path) -> None:
    started = ManagedProcess(command, environment=environment, folder=folder)
    said = Tail(started.process.stdout), Tail(started.process.stderr)
    try:
        await started.wait(READY_LIMIT_S)
    finally:
        await started.stop()
    if started.process.returncode != 0:
        raise CaseFailedError("no_service", f"{name} can't be prepared{_Running(started, said, '').last_error()}")


async def _answering(running: _Running, name: str, port: int) -> None:
    """Return when it accepts connections."""
    deadline_s = asyncio.get_running_loop().time() + READY_LIMIT_S
    while not running.started.ended() and asyncio.get_running_loop().time() < deadline_s:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(HOST, port)
            writer.close()
            return
        await asyncio.sleep(0.02)
    await until(lambda: not any(tail.reading() for tail in running.said), 0.5)
    raise CaseFailedError("no_service", f"{name} can't be started{running.last_error()}")
