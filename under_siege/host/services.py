"""Start private instances of PostgreSQL and Redis for servers that need them, and stop them when the run ends.

They listen on TCP, because some drivers can't use Unix sockets, so each has a random password: without it, any user of
this machine could run programs through them.
"""

import asyncio
import contextlib
import os
import pwd
import secrets
import shlex
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from packaging.version import Version

from under_siege.host.commands import CommandError, last_problem, run_command
from under_siege.host.managed_process import ManagedProcess, Tail, how_it_ended, last_line
from under_siege.host.ports import claimed_port, must_be_its_own
from under_siege.host.programs import install_command, path_of
from under_siege.host.resource_usage import tree_usage
from under_siege.host.supervisor_client import current_supervisor
from under_siege.paths import HOST
from under_siege.record.record import CaseFailedError, Record
from under_siege.secrets import hide

READY_LIMIT_S = 30.0
NOBODY = ("postgres", "redis", "nobody")  # if the bench runs as root, services run as the first of these that exists


@dataclass(frozen=True, slots=True)
class Service:
    """A service and the commands that start it. All options and `address` may contain {folder}, {host} and {port}.

    Only `address` and `file` may contain {password}, because other users can see the options.
    """

    name: str
    program: str
    options: str
    address: str
    variable: str  # environment variable in which clients expect the password if their address has none
    file: tuple[str, str]  # name and contents of a file that sets the password
    first_port: int
    prepare: tuple[str, str] | None = None  # program to run first, and its options


SERVICES = {
    "postgresql": Service(
        "postgresql",
        "postgres",
        "-D {folder}/data -p {port} -c listen_addresses={host} -c unix_socket_directories={folder} "
        # With mmap, shared memory consists of files in the folder, which is removed at the end.
        "-c dynamic_shared_memory_type=mmap -c fsync=off -c max_connections=300",
        "postgresql://under_siege:{password}@{host}:{port}/postgres",
        "PGPASSWORD",
        ("password", "{password}\n"),
        15432,
        (
            "initdb",
            "--pgdata {folder}/data --username under_siege --pwfile {folder}/password --auth scram-sha-256 --no-sync "
            "--encoding UTF8",
        ),
    ),
    "redis": Service(
        "redis",
        "redis-server",
        "{folder}/redis.conf --port {port} --bind {host} --dir {folder} --save '' --appendonly no",
        "redis://:{password}@{host}:{port}/0",
        "REDISCLI_AUTH",
        ("redis.conf", "requirepass {password}\n"),
        16379,
    ),
}


def without_passwords(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses of services for a command line, which other users of this machine can read."""
    return {
        name: address.replace(urlsplit(address).netloc, _without_password(urlsplit(address).netloc))
        for name, address in addresses.items()
    }


def _without_password(netloc: str) -> str:
    before, at, host = netloc.rpartition("@")
    user = before.partition(":")[0]
    return f"{user}{at}{host}" if user else host


def password_variables(addresses: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables with the passwords of these services, by name of the variable."""
    return {SERVICES[name].variable: urlsplit(address).password or "" for name, address in addresses.items()}


class Services:
    """The running services. Each service is started when it is first needed, and again if it has died."""

    def __init__(self, stack: contextlib.AsyncExitStack | None = None) -> None:
        self._stack = stack or contextlib.AsyncExitStack()
        self._running: dict[str, _Running] = {}

    async def addresses(self, needs: Sequence[str]) -> dict[str, str]:
        """Start the needed services that aren't running; return their addresses, with passwords, by name.

        Raises:
            CaseFailedError: a service can't be started.
        """
        names = [name for name in needs if name in SERVICES]
        for name in names:
            if name not in self._running or self._running[name].process.ended():
                self._running[name] = await self._stack.enter_async_context(_running(SERVICES[name]))
        return {name: self._running[name].address for name in names}

    async def must_live(self, needs: Sequence[str]) -> None:
        """Raise CaseFailedError if a needed service has died."""
        for name in needs:
            running = self._running.get(name)
            if running is not None and (status := running.process.poll()) is not None:
                how = f"{how_it_ended(status)} during the run; {last_line(running.output())}"
                raise CaseFailedError("service_died", f"{name}, which the server needs, {how}")

    def cpu_s(self, needs: Sequence[str]) -> float | None:
        """Return the CPU time of the needed services in seconds, or None if none of them is running."""
        pids = [self._running[name].process.pid for name in needs if name in self._running]
        used_s = [usage.cpu_s for pid in pids if (usage := tree_usage(pid, memory=False)) is not None]
        return sum(used_s) if used_s else None

    @contextlib.contextmanager
    def watching(self, needs: Sequence[str], record: Record) -> Iterator[None]:
        """Record the CPU time that the needed services use while the context is active."""
        before_s = self.cpu_s(needs)
        try:
            yield
        finally:
            after_s = self.cpu_s(needs)
            if before_s is not None and after_s is not None:
                record.services_cpu_s = max(0.0, round(after_s - before_s, 4))


@contextlib.asynccontextmanager
async def services() -> AsyncIterator[Services]:
    """Yield services that start on demand, and stop them at the end."""
    async with contextlib.AsyncExitStack() as stack:
        yield Services(stack)


@dataclass(frozen=True, slots=True)
class _Running:
    process: ManagedProcess
    tails: tuple[Tail, Tail]
    address: str

    def output(self) -> str:
        return "\n".join(tail.text() for tail in self.tails)


@contextlib.asynccontextmanager
async def _running(service: Service) -> AsyncIterator[_Running]:
    program = _path(service.name, service.program)
    initial_program = _path(service.name, service.prepare[0]) if service.prepare else ""
    as_user, uid = _unprivileged()
    with contextlib.ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix=f"{service.name}-", dir="/tmp", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(temporary))
        stack.enter_context(current_supervisor().removing(folder))
        if uid is not None:
            os.chown(folder, uid, -1)
        claim = stack.enter_context(claimed_port(service.first_port))
        password = secrets.token_hex(24)
        hide(password)
        name, contents = service.file
        _write_for(uid, folder / name, contents.format(password=password))
        places = {"folder": folder, "host": HOST, "port": claim.getsockname()[1]}
        environment = {**os.environ, "TMPDIR": str(folder), "HOME": str(folder), "LC_ALL": "C"}
        if service.prepare:
            options = [word.format(**places) for word in shlex.split(service.prepare[1])]
            await _prepare(service.name, [*as_user, initial_program, *options], environment, folder)
        options = [word.format(**places) for word in shlex.split(service.options)]
        process = ManagedProcess([*as_user, program, *options], environment=environment, folder=folder)
        try:
            tails = Tail(process.stdout), Tail(process.stderr)
            running = _Running(process, tails, service.address.format(password=password, **places))
            await _accepts_connections(running, service.name, places["port"])
            yield running
        finally:
            await process.stop()


def _write_for(uid: int | None, path: Path, contents: str) -> None:
    """Write a file that only its owner can read: this user, or the user with this id."""
    path.touch(0o600, exist_ok=False)
    path.write_text(contents, encoding="ascii")
    if uid is not None:
        os.chown(path, uid, -1)


def _path(service: str, program: str) -> str:
    """Return the path of a program, which may be outside the PATH, as PostgreSQL's programs are on Debian."""
    debians = Path("/usr/lib/postgresql").glob(f"[0-9]*/bin/{program}")
    newest = max(debians, key=lambda path: Version(path.parts[4]), default=None)
    path = path_of(program) or newest
    if path is None:
        how = install_command(service)
        raise CaseFailedError("missing_program", f"{service} is not installed; install it with: {how}")
    return str(path)


def _unprivileged() -> tuple[list[str], int | None]:
    """Return a command prefix that drops root privileges, and the new user id, or `[]` and `None` if not run as root.

    Services run in their own IPC namespace, because PostgreSQL would leave shared memory behind if it were killed.
    """
    if os.getuid() != 0:
        return [], None
    users = {user.pw_name: user for user in pwd.getpwall()}
    user = next((users[name] for name in NOBODY if name in users), None)
    if user is None or shutil.which("setpriv") is None:
        raise CaseFailedError(
            "no_service",
            "services can't run as root: expected the program setpriv and a user named postgres, redis or nobody; "
            "install setpriv (package util-linux), or run the bench as another user",
        )
    own_memory = ["unshare", "--ipc"] if shutil.which("unshare") else []
    return [*own_memory, "setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"], user.pw_uid


async def _prepare(name: str, command: list[str], environment: dict[str, str], folder: Path) -> None:
    try:
        await run_command(command, folder, environment, limit_s=READY_LIMIT_S)
    except CommandError as error:
        raise CaseFailedError("no_service", f"{name} can't be prepared: {error}") from None


async def _accepts_connections(running: _Running, name: str, port: int) -> None:
    deadline_s = asyncio.get_running_loop().time() + READY_LIMIT_S
    while not running.process.ended() and asyncio.get_running_loop().time() < deadline_s:
        with contextlib.suppress(OSError):
            _, writer = await asyncio.open_connection(HOST, port)
            writer.close()
            must_be_its_own(running.process.pid, port)
            return
        await asyncio.sleep(0.02)
    for tail in running.tails:
        await tail.read_to_end()
    raise CaseFailedError("no_service", f"{name} can't be started: {last_problem(running.output())}")
