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
    """How one is started: its programs, and the words for a folder and a port."""

    name: str
    programs: tuple[str, ...]
    prepare: Callable[[str, Path], list[str]] | None
    command: Callable[[str, Path, int], list[str]]
    address: str  # with the port in braces
    first_port: int


def _initdb(program: str, folder: Path) -> list[str]:
    return [
        program,
        "--pgdata",
        str(folder / "data"),
        "--username",
        NAME,
        "--auth",
        "trust",
        "--no-sync",
        "--encoding",
        "UTF8",
    ]


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
    """Those that run, by name. Each is started when it is needed for the first time, and again if it died."""

    def __init__(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        self._running: dict[str, _Running] = {}

    async def addresses(self, needs: Sequence[str]) -> dict[str, str]:
        """Where those of them listen that are services.

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
        """Returns if all of them that are services still run.

        Raises:
            CaseFailedError: one has died.
        """
        for name in needs:
            running = self._running.get(name)
            if running is not None and (status := running.started.process.poll()) is not None:
                said = f"{how_it_ended(status)} meanwhile{running.last_line()}"
                raise CaseFailedError("service_died", f"{name}, which the server needs, {said}")

    def cpu_s(self, needs: Sequence[str]) -> float | None:
        """The CPU time that those of them have used that run; None if none does."""
        running = [self._running[name].started.pid for name in needs if name in self._running]
        used = [usage.cpu_s for pid in running if (usage := tree_usage(pid, memory=False)) is not None]
        return sum(used) if used else None

    @contextlib.contextmanager
    def watching(self, needs: Sequence[str], record: Record) -> Iterator[None]:
        """Writes into the record what those of them used while the body ran."""
        before_s = self.cpu_s(needs)
        try:
            yield
        finally:
            after_s = self.cpu_s(needs)
            if before_s is not None and after_s is not None:
                record.services_cpu_s = max(0.0, round(after_s - before_s, 4))

    async def close(self) -> None:
        """Ends all of them."""
        await self._stack.aclose()


@dataclass(frozen=True, slots=True)
class _Running:
    started: ManagedProcess
    said: tuple[Tail, Tail]
    address: str

    def last_line(self) -> str:
        lines = [line for tail in self.said for line in tail.text().splitlines() if line.strip()]
        return f"; its last line: {lines[-1].strip()[:200]}" if lines else ""

    def last_error(self) -> str:
        """Of a start that failed: what it says of that, which may not be the last thing that it says."""
        lines = [line for tail in self.said for line in tail.text().splitlines() if _TELLS_WHY.search(line)]
        return f"; it says: {lines[-1].strip()[:200]}" if lines else self.last_line()


@contextlib.asynccontextmanager
async def services() -> AsyncIterator[Services]:
    """None yet; whatever runs at the end is ended."""
    all_of_them = Services()
    try:
        yield all_of_them
    finally:
        await all_of_them.close()


@contextlib.asynccontextmanager
async def _running(service: Service) -> AsyncIterator[_Running]:
    programs = [_program(service, name) for name in service.programs]
    as_user, uid = _unprivileged()
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix=f"{service.name}-", dir="/tmp", ignore_cleanup_errors=True)
            )
        )
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
            running = _Running(
                started, (Tail(started.process.stdout), Tail(started.process.stderr)), service.address.format(port=port)
            )
            await _answering(running, service.name, port)
            yield running
        finally:
            await started.stop()


def _program(service: Service, name: str) -> str:
    """Its path; Debian keeps those of PostgreSQL where no PATH leads."""
    known = sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), key=_version)
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin") or next(reversed(known), None)
    if found is None:
        how = install_command(service.name)
        raise CaseFailedError("missing_program", f"{service.name} is not installed; install it with: {how}")
    return found


def _version(path: str) -> float:
    try:
        return float(path.split("/")[4])
    except ValueError:
        return 0.0


def _unprivileged() -> tuple[list[str], int | None]:
    """The words that give up all privileges, and whose it becomes; none where there are none to give up.

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
    """Returns when it takes connections."""

    async def connects() -> bool:
        try:
            _, writer = await asyncio.open_connection(HOST, port)
        except OSError:
            return False
        writer.close()
        return True

    deadline_s = asyncio.get_running_loop().time() + READY_LIMIT_S
    while not running.started.ended() and asyncio.get_running_loop().time() < deadline_s:
        if await connects():
            return
        await asyncio.sleep(0.02)
    await until(lambda: not any(tail.reading() for tail in running.said), 0.5)
    raise CaseFailedError("no_service", f"{name} can't be started{running.last_error()}")
