"""Start a server under test on a free port, wait until it is ready, and stop it with all its processes.

A server that is already running elsewhere is neither started nor stopped.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import aiohttp
import psutil

from common.options import default_port
from under_siege.host.docker_run import Container, contained
from under_siege.host.known_causes import known_cause
from under_siege.host.limits import Group, Limits, limited, must_fit
from under_siege.host.managed_process import (
    CALM_LOOK_S,
    GRACE_S,
    ManagedProcess,
    Tail,
    how_it_ended,
    last_error,
    last_line,
    until,
)
from under_siege.host.ports import (
    claimed_port,
    listeners,
    listening_processes,
    port_is_free,
)
from under_siege.host.process_tree import descendants
from under_siege.host.resource_usage import tree_usage
from under_siege.host.services import Services
from under_siege.load.http_client import HttpResponse, fetch
from under_siege.load.jobs import fetch_job
from under_siege.load.request import MixedRequest, Request, filled
from under_siege.load.simulated_user import SimulatedUser
from under_siege.load.streams import BROKEN, fetch_stream
from under_siege.measure.plan import Plan
from under_siege.measure.server_command import Start, start_of
from under_siege.paths import HOST
from under_siege.record.case import Case
from under_siege.record.record import CaseFailedError, Record

DYING_LIMIT_S = 2.0  # how long to wait for a process to exit after a failed request
STDERR_LIMIT_S = 0.1  # timeout for a traceback on stderr after an error response
T = TypeVar("T")


@dataclass(eq=False)
class Server:
    """A server under test, from its start to its end. A server that is already running has no `start`."""

    plan: Plan
    case: Case
    url: str
    port: int | None  # None if the server has an address of its own
    start: Start | None
    group: Group | None = None  # the cgroup whose limits apply to the server
    container: Container | None = None
    grace_s: float = GRACE_S  # timeout for the exit of the server
    listens_elsewhere: bool = False  # whether the listening process is unknown

    def __post_init__(self) -> None:
        self.ping = self.plan.suite.ping
        self.load_url = self.url + self.plan.load_of(self.case).path
        self.folder = self.start.own_folder if self.start else ""
        self.limit_s = self.plan.targets[self.case.server].ready_within_s or self.plan.suite.ready_within_s
        self._user = SimulatedUser()  # who sends the requests of the bench itself
        self.begin()

    def begin(self) -> None:
        """Start the server, again if it has been stopped; raise CaseFailedError if its command can't be started."""
        self.started_s = time.monotonic()
        self.started = _begun(self.start) if self.start else None
        self.stderr = Tail(self.started.stderr) if self.started else None
        self.stdout = Tail(self.started.stdout) if self.started else None
        # A command with its own address may start the server on another machine, for example with ssh. `process` is the
        # main process, or None if it is unknown.
        self.process = psutil.Process(self.started.pid) if self.started and self.port is not None else None

    @property
    def pid(self) -> int | None:
        """Return the id of the main process, or None if it is unknown."""
        return self.process.pid if self.process is not None else None

    def age_s(self) -> float:
        """Return the seconds since the start, or since the first check of a server that was already running."""
        return time.monotonic() - self.started_s

    def alive(self) -> bool:
        """Return whether the process is running, or True if this is unknown."""
        return self.started is None or not self.started.ended()

    def listeners(self) -> list[int]:
        """Return the ids of the server's processes that listen on its port, or an empty list if unknown."""
        with contextlib.suppress(psutil.Error):
            return listeners(self.pid, self.port) if self.pid is not None and self.port is not None else []
        return []

    def listening_processes(self) -> int:
        """Return how many of the server's processes listen on its port, or 1 if this is unknown."""
        return 1 if self.pid is None or self.port is None else listening_processes(self.pid, self.port)

    def cpu_s(self) -> float | None:
        """Return the CPU seconds that all processes of the server have used, or None if this is unknown."""
        usage = tree_usage(self.pid, memory=False) if self.pid is not None else None
        return usage.cpu_s if usage else None

    def children(self) -> set[int]:
        """Return the ids of the server's descendant processes, or an empty set if they are unknown."""
        return set(descendants(self.pid)) if self.pid is not None else set()

    async def while_alive(self, work: Awaitable[T]) -> T:
        """Await the work while the server is alive, and return the result of the work.

        Raises:
            CaseFailedError: the server died, either during the work (which is then cancelled) or soon after the work
            failed.
        """
        begun = asyncio.ensure_future(work)
        task = asyncio.ensure_future(self.explaining(begun))
        try:
            while not task.done() and self.alive():
                await asyncio.wait({task}, timeout=CALM_LOOK_S)
            await self.must_live(DYING_LIMIT_S if task.done() and task.exception() else 0.0)
            return task.result()
        finally:
            task.cancel()
            begun.cancel()
            await asyncio.gather(task, begun, return_exceptions=True)

    async def explaining(self, work: Awaitable[T]) -> T:
        """Return the result of the work; if it fails, add the last line of the server's traceback to the error."""
        try:
            return await work
        except CaseFailedError as failed:
            if failed.code not in ("error_answer", "not_ready", "refused_request", BROKEN):
                raise
            if not await until(lambda: bool(self._error_and_cause()), STDERR_LIMIT_S):
                raise
            raise CaseFailedError(failed.code, f"{failed}; {self._error_and_cause()}") from None

    def _error_and_cause(self) -> str:
        said = self.all_stderr()
        error, cause = last_error(said), known_cause(said)
        return "; ".join(filter(None, [error and f"the last error on stderr: {error}", cause]))

    def gil_enabled_by(self) -> str:
        """Return the module that enabled the GIL, according to free-threaded Python's warning, or an empty string."""
        warning = re.search(r"GIL\) has been enabled to load module '([^']+)'", self.all_stderr())
        return warning[1] if warning else ""

    def consumed_iterators(self) -> str:
        """Return which iterators Django reads to their end before it sends them, according to its warning, or nothing.

        They are `synchronous` under ASGI, or `asynchronous` under WSGI.
        """
        warning = re.search(r"StreamingHttpResponse must consume (\w+) iterators", self.all_stderr())
        return warning[1] if warning else ""

    def all_stderr(self) -> str:
        """Return the last part of stderr."""
        return self.stderr.all_kept() if self.stderr else ""

    async def must_live(self, for_s: float = DYING_LIMIT_S) -> None:
        """Check that the server stays alive for `for_s` seconds.

        A request may fail shortly before the exit of the server is visible.

        Raises:
            CaseFailedError: the server died.
        """
        if await until(lambda: not self.alive(), for_s):
            raise await self._death()

    async def _death(self) -> CaseFailedError:
        assert self.started is not None
        assert self.stderr is not None
        stderr, process = self.stderr, self.started
        await stderr.read_to_end()
        status = process.reap()
        if process.supervisor.is_lost():
            return CaseFailedError("died", "the supervisor of the server was killed, perhaps by the server")
        error = last_error(self.all_stderr())
        quoted = last_line(stderr.text(), self.stdout.text() if self.stdout else "")
        if missing := re.search(r"ModuleNotFoundError: No module named '([\w]+)", error or quoted):
            return CaseFailedError("missing_package", _why_missing(self.plan, self.case, missing[1]))
        said = f"; {quoted}"
        if error and error not in said:  # a parent process, such as gunicorn's, prints more after the traceback
            said += f"; its last error: {error}"
        if cause := known_cause(self.all_stderr()):
            said += f"; {cause}"
        elif status == 0 and not error and self.age_s() < self.limit_s:
            said += "; if it runs in the background, configure it to stay in the foreground"
        return CaseFailedError("died", f"the server {how_it_ended(status)} after {self.age_s():.1f} s{said}")

    async def set_up(self, session: aiohttp.ClientSession, number: int = 1) -> None:
        """Let the bench be the user with this number from now on, and send the requests of its setup.

        Raises:
            CaseFailedError: a request fails.
        """
        setup = self.plan.load.setup
        user = SimulatedUser(number, has_setup=bool(setup))
        try:
            await user.set_up(session, self.url, setup)
        except aiohttp.ClientConnectorError as error:
            raise CaseFailedError("refused", f"setup: the connection was refused: {error.strerror}") from None
        self._user = user

    def filled(self, url: str, request: Request) -> tuple[str, Request]:
        """Return a request of the load with a value for each placeholder, as the user of the bench sends it.

        Raises:
            CaseFailedError: no answer of the setup contains a value.
        """
        sent = self._user.filled(url, request)
        self._user.hide_secrets()
        return sent

    async def send_load_request(
        self, session: aiohttp.ClientSession, limit_s: float, right: bytes = b"", one: MixedRequest | None = None
    ) -> HttpResponse:
        """Send a request of the load and return the response; raise the same errors as `fetch`."""
        load = self.plan.load
        url, request = (self.url + one.path, one.request) if one else (self.load_url, load.request)
        url, request = self.filled(url, request)
        if load.stream:
            return await fetch_stream(session, url, limit_s, load.stream, request)
        send = fetch_job if load.posts_jobs else fetch
        return await send(session, url, limit_s, right, request)

    async def stop(self) -> None:
        """Stop the server and all its processes, and check that its port is free again."""
        if self.started is None:
            return
        await self.started.stop(self.grace_s)
        if self.container:
            await self.container.stop()
        port = self.port
        if port is not None and not await until(lambda: port_is_free(port), 1.0):
            raise CaseFailedError("port_kept", f"port {port} is still in use after the server was stopped")


def _why_missing(plan: Plan, case: Case, package: str) -> str:
    """Return which Python lacks the package, and why or what to do."""
    python, has_requirements = plan.python_of(case), bool(plan.targets[case.server].requirements)
    what_to_do = "add it to the requirements of the suite" if has_requirements else "install it there"
    if plan.suite.application and has_requirements:
        what_to_do = f"list it in {plan.suite.application.environment}"
    why = python.why_missing(package)
    because = f": {why}" if why else f"; {what_to_do}"
    return f"Python {python.version} lacks the package {package}{because}"


def _begun(start: Start) -> ManagedProcess:
    try:
        return ManagedProcess(start.words, environment=start.environment, folder=start.folder)
    except OSError as error:
        why = f"{start.words[0]!r} can't be started: {error.strerror}"
        raise CaseFailedError(
            "no_command",
            f"{why}; check the spelling, or install the program, for example with requirements in the suite",
        ) from None


@contextlib.asynccontextmanager
async def running(plan: Plan, case: Case, record: Record | None, services: Services) -> AsyncIterator[Server]:
    """Start the server of a case; always stop it at the end and, if there is a record, note how long stopping takes.

    Raises:
        CaseFailedError: the server can't be started, or lacks something that it needs.
    """
    target = plan.targets[case.server]
    addresses = await services.addresses(target.needs)
    async with contextlib.AsyncExitStack() as stack:
        port = None
        start = None
        container = None
        group = stack.enter_context(limited(Limits.of(case)))
        if target.command:
            first, cases = default_port(case.server.rpartition("/")[2]), (*plan.ceilings, *plan.cases)
            if plan.load.ports is not None:  # use a new port, because connections in TIME_WAIT block the old one
                first += (record.round if record else 1) * len(cases) + cases.index(case)
            port = int(stack.enter_context(claimed_port(first)).getsockname()[1])
            start = stack.enter_context(start_of(plan, case, port, addresses))
            start = replace(start, words=group.command(start.words)) if group else start
            inside = contained(start.words, Path(start.own_folder), start.environment, start.folder)
            words, container = await stack.enter_async_context(inside)
            start = replace(start, words=words)
        url = filled(target.url, plan.values_of(case)) or f"http://{HOST}:{port}"
        server = Server(plan, case, url, None if target.url else port, start, group, container)
        has_failed = False
        try:
            yield server
            await services.must_live(target.needs)
            must_fit(server.group)
        except CaseFailedError:
            has_failed = True
            must_fit(server.group)
            raise
        finally:
            await _stop(server, record, has_failed=has_failed)


async def _stop(server: Server, record: Record | None, *, has_failed: bool) -> None:
    """Stop the server and note how long this takes; an error of this does not replace the one that came before."""
    began_s = time.monotonic()
    try:
        await server.stop()
    except CaseFailedError:
        task = asyncio.current_task()  # an error during cancellation would make the run continue
        if not has_failed and (task is None or not task.cancelling()):
            raise
    finally:
        if record is not None:
            record.stop_s = time.monotonic() - began_s
            record.server_said = server.stderr.text() if server.stderr else ""
