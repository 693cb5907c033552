"""Start a server under test on a free port, wait until it is ready, and stop it with all its processes.

A server that is already running elsewhere is neither started nor stopped.
"""

import asyncio
import contextlib
import math
import re
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import aiohttp
import psutil

from common.options import default_port
from under_siege.host.docker_run import Container, contained, group_of
from under_siege.host.known_causes import known_cause
from under_siege.host.limits import Group, Limits, limited, must_fit
from under_siege.host.managed_process import (
    CALM_LOOK_S,
    GRACE_S,
    LOOK_S,
    ManagedProcess,
    Tail,
    how_it_ended,
    last_error,
    last_line,
    processes,
    until,
)
from under_siege.host.ports import (
    claimed_port,
    listeners,
    listening_processes,
    must_be_its_own,
    port_is_free,
    where_it_listens,
)
from under_siege.host.process_tree import descendants
from under_siege.host.resource_usage import tree_usage
from under_siege.host.services import Services
from under_siege.load.http_client import HttpResponse, fetch, must_accept_connections
from under_siege.load.jobs import fetch_job
from under_siege.load.request import MixedRequest, Request, filled
from under_siege.load.simulated_user import SimulatedUser
from under_siege.load.streams import BROKEN, fetch_stream
from under_siege.measure.plan import Plan
from under_siege.measure.remedies import Asked, Source, remedy
from under_siege.measure.server_command import Start, start_of
from under_siege.paths import HOST
from under_siege.record.case import Case
from under_siege.record.record import CaseFailedError, Record

DYING_LIMIT_S = 2.0  # how long to wait for a process to exit after a failed request
FINAL_SHARE = 0.1  # final share of the time limit in which failed requests don't replace earlier problems
RETRIED = (408, 425, 429)  # statuses after which a request may be repeated
REFUSED_S = 2.0  # a server that refuses the same request for this long will go on
LONGEST_TASK_S = 60.0
STDERR_LIMIT_S = 0.1  # timeout for a traceback on stderr after an error response
T = TypeVar("T")


class Server:
    """A server under test. `url` is its address, and `process` its main process (None if unknown)."""

    def __init__(
        self,
        plan: Plan,
        case: Case,
        url: str,
        port: int | None,
        start: Start | None,
        group: Group | None = None,
        container: Container | None = None,
    ) -> None:
        target, suite = plan.targets[case.server], plan.suite
        self.group = group  # the cgroup whose limits apply to the server
        self._container = container
        self.url = url
        self._port = port
        self._python = plan.python_of(case)
        self._has_requirements = bool(target.requirements)
        self._application = suite.application
        self.is_application = suite.application is not None
        of_options = Source.APPLICATION if self.is_application else Source.URL
        self._source = of_options if suite.is_from_options else Source.SUITE
        self.load_url = url + plan.load_of(case).path
        self._load_request, self._posts_jobs = plan.load.request, plan.load.posts_jobs
        self._stream, self.setup = plan.load.stream, plan.load.setup
        self._user = SimulatedUser()  # who sends the requests of the bench itself
        self.ping, self._status = suite.ping, suite.expect.status
        self.folder = start.own_folder if start is not None else ""
        self.grace_s = GRACE_S  # timeout for the exit of the server
        self.listens_elsewhere = False  # whether the listening process is unknown
        self._limit_s = target.ready_within_s or suite.ready_within_s
        self._start = start
        self._begin()

    def _begin(self) -> None:
        self.started_s = time.monotonic()
        self._started = _begun(self._start) if self._start is not None else None
        self._stderr = Tail(self._started.stderr) if self._started else None
        self._stdout = Tail(self._started.stdout) if self._started else None
        # A command with its own address may start the server on another machine, for example with ssh.
        self.process = psutil.Process(self._started.pid) if self._started and self._port is not None else None

    @property
    def pid(self) -> int | None:
        """Return the id of the main process, or None if it is unknown."""
        return self.process.pid if self.process is not None else None

    def age_s(self) -> float:
        """Return the seconds since the start, or since the first check of a server that was already running."""
        return time.monotonic() - self.started_s

    def alive(self) -> bool:
        """Return whether the process is running, or True if this is unknown."""
        return self._started is None or not self._started.ended()

    def listeners(self) -> list[int]:
        """Return the ids of the server's processes that listen on its port, or an empty list if unknown."""
        with contextlib.suppress(psutil.Error):
            return listeners(self.pid, self._port) if self.pid is not None and self._port is not None else []
        return []

    def listening_processes(self) -> int:
        """Return how many of the server's processes listen on its port, or 1 if this is unknown."""
        return 1 if self.pid is None or self._port is None else listening_processes(self.pid, self._port)

    def cpu_s(self) -> float | None:
        """Return the CPU seconds that all processes of the server have used, or None if this is unknown."""
        usage = tree_usage(self.pid, memory=False) if self.pid is not None else None
        return usage.cpu_s if usage else None

    def children(self) -> set[int]:
        """Return the ids of the server's descendant processes, or an empty set if they are unknown."""
        return set(descendants(self.pid)) if self.pid is not None else set()

    def exit_status(self) -> int | None:
        """Return the exit status (negative for a signal), or None if the server is running or its status is unknown."""
        return self._started.poll() if self._started else None

    def last_words(self) -> str:
        """Return the last lines of stderr."""
        return self._stderr.text() if self._stderr else ""

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
        said = self._all_stderr()
        error, cause = last_error(said), known_cause(said)
        return "; ".join(filter(None, [error and f"the last error on stderr: {error}", cause]))

    def gil_enabled_by(self) -> str:
        """Return the module that enabled the GIL, according to free-threaded Python's warning, or an empty string."""
        warning = re.search(r"GIL\) has been enabled to load module '([^']+)'", self._all_stderr())
        return warning[1] if warning else ""

    def consumed_iterators(self) -> str:
        """Return which iterators Django reads to their end before it sends them, according to its warning, or nothing.

        They are `synchronous` under ASGI, or `asynchronous` under WSGI.
        """
        warning = re.search(r"StreamingHttpResponse must consume (\w+) iterators", self._all_stderr())
        return warning[1] if warning else ""

    def _all_stderr(self) -> str:
        return self._stderr.all_kept() if self._stderr else ""

    async def must_live(self, for_s: float = DYING_LIMIT_S) -> None:
        """Check that the server stays alive for `for_s` seconds.

        A request may fail shortly before the exit of the server is visible.

        Raises:
            CaseFailedError: the server died.
        """
        if await until(lambda: not self.alive(), for_s):
            raise await self._death()

    async def _death(self) -> CaseFailedError:
        assert self._started is not None
        assert self._stderr is not None
        stderr, process = self._stderr, self._started
        await stderr.read_to_end()
        status = process.reap()
        if process.supervisor.is_lost():
            return CaseFailedError("died", "the supervisor of the server was killed, perhaps by the server")
        error, quoted = (
            last_error(self._all_stderr()),
            last_line(stderr.text(), self._stdout.text() if self._stdout else ""),
        )
        if missing := re.search(r"ModuleNotFoundError: No module named '([\w]+)", error or quoted):
            return self._missing(missing[1])
        said = f"; {quoted}"
        if error and error not in said:  # a parent process, such as gunicorn's, prints more after the traceback
            said += f"; its last error: {error}"
        if cause := known_cause(self._all_stderr()):
            said += f"; {cause}"
        elif status == 0 and not error and self.age_s() < self._limit_s:
            said += "; if it runs in the background, configure it to stay in the foreground"
        return CaseFailedError("died", f"the server {how_it_ended(status)} after {self.age_s():.1f} s{said}")

    def _missing(self, package: str) -> CaseFailedError:
        why = self._python.why_missing(package)
        what_to_do = "add it to the requirements of the suite" if self._has_requirements else "install it there"
        if self._application and self._has_requirements:
            what_to_do = f"list it in {self._application.environment}"
        because = f": {why}" if why else f"; {what_to_do}"
        return CaseFailedError("missing_package", f"Python {self._python.version} lacks the package {package}{because}")

    async def set_up(self, session: aiohttp.ClientSession, number: int = 1) -> None:
        """Let the bench be the user with this number from now on, and send the requests of its setup.

        Raises:
            CaseFailedError: a request fails.
        """
        user = SimulatedUser(number, has_setup=bool(self.setup))
        try:
            await user.set_up(session, self.url, self.setup)
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
        url, request = (self.url + one.path, one.request) if one else (self.load_url, self._load_request)
        url, request = self.filled(url, request)
        if self._stream:
            return await fetch_stream(session, url, limit_s, self._stream, request)
        send = fetch_job if self._posts_jobs else fetch
        return await send(session, url, limit_s, right, request)

    async def _ready_answer(self, session: aiohttp.ClientSession, limit_s: float) -> HttpResponse | None:
        """Return the response that shows whether the server is ready, or None if only a connection was opened."""
        if self.ping is not None:
            return await fetch(session, self.url + self.ping.path, limit_s, b"", self.ping.request)
        if not self.setup and (self._load_request.may_be_repeated or self._posts_jobs):
            if self._stream:  # it may be endless
                first = replace(self._stream, most_events=1)
                url, request = self.filled(self.load_url, self._load_request)
                return await fetch_stream(session, url, limit_s, first, request)
            # Once the server listens, it may take as long as one task.
            return await self.send_load_request(session, max(limit_s, LONGEST_TASK_S))
        await must_accept_connections(self.url)
        return None

    async def ready(self, session: aiohttp.ClientSession) -> HttpResponse | None:
        """Wait until the server is ready; return the response to the ping or, without a ping, to the load's request.

        A request that must not be repeated, such as a POST, or that needs a setup, is not sent. The server then counts
        as ready once it is listening.

        Raises:
            CaseFailedError: there is no correct response in time, or another process answers.
        """
        path, seen = self.load_url.removeprefix(self.url) if self.ping is None else self.ping.path, ""
        refused_s = math.inf  # when the server first refused the request
        refusal: HttpResponse | None = None
        while (left_s := self._limit_s - self.age_s()) > 0:
            try:
                answer = await self._ready_answer(session, left_s)
                if answer is None or self._is_right(answer):
                    await self._follow_listener()
                    return answer
                seen = f"{path} returned {answer.described()}"
                refusal = answer if 300 <= answer.status <= 500 and answer.status not in RETRIED else None
                refused_s = min(refused_s, self.age_s()) if refusal else math.inf
                if self.age_s() > refused_s + REFUSED_S:
                    break
            except aiohttp.ClientConnectorDNSError as error:
                if self._started is None:
                    raise CaseFailedError("not_ready", f"unknown host {error.host!r}") from None
            except (aiohttp.ClientConnectorError, ConnectionError):
                pass  # the server doesn't listen yet
            except CaseFailedError as failed:
                if failed.code in ("stranger", "no_stream"):
                    raise
                if left_s > FINAL_SHARE * self._limit_s:
                    seen = str(failed)
            await asyncio.sleep(LOOK_S)
        raise self._not_ready(seen, refusal)

    def _not_ready(self, seen: str, refusal: HttpResponse | None) -> CaseFailedError:
        """Return the error for a server that did not get ready; `refusal` is the response with which it refuses."""
        if refusal is not None:
            return CaseFailedError("refused_request", f"{seen}{self.remedy(refusal, is_ping=self.ping is not None)}")
        where = where_it_listens(self.pid, self._port) if self.pid is not None else ""
        option = "--ready-within 60s" if self._application else "ready_within under [ping]"
        more = "" if where or known_cause(self._all_stderr()) else f"; if it needs longer, use {option}"
        why = seen or f"nothing listens at {self.url}{where}"
        return CaseFailedError("not_ready", f"not ready within {self._limit_s:.3g} s: {why}{more}")

    def remedy(self, answer: HttpResponse, one: MixedRequest | None = None, *, is_ping: bool = False) -> str:
        """Return what to do about a response with an unexpected status, as the end of a sentence.

        Args:
            one: the request of a mix.
            is_ping: whether it is the response to a ping.
        """
        path, request = (one.path, one.request) if one else (self.load_url.removeprefix(self.url), self._load_request)
        if is_ping and self.ping is not None:
            path, request = self.ping.path, self.ping.request
        routes = self._application.routes if self._application else ()
        asked = Asked(self.url, path, request, self._source, is_ping, bool(self.setup), routes)
        return remedy(answer, asked)

    async def _follow_listener(self) -> None:
        """Find the process that listens if it is outside the process tree of the command: an orphan, such as a daemon.

        If the system does not report which process listens, its CPU time and memory are unknown. A port that a
        container publishes belongs to its command, whoever listens on it.

        Raises:
            CaseFailedError: a process that the command did not start listens.
        """
        if self._started is None or self._port is None:
            return
        if self._container:
            pid = await self._container.pid()
            self.process = next(iter(processes([pid] if pid else [])), None)
            self.listens_elsewhere, self.group = self.pid is None, group_of(self.pid) if self.pid else None
            return
        supervisor = self._started.supervisor
        try:
            is_own = bool(listeners(self._started.pid, self._port))
        except psutil.Error:  # the system does not tell
            is_own = True
        if is_own:
            must_be_its_own(self._started.pid, self._port, supervisor.pid)
            return
        adopted = [orphan for orphan in supervisor.orphans() if self._listens(orphan.pid)]
        if not adopted:
            must_be_its_own(self._started.pid, self._port, supervisor.pid)
        self.process, self.listens_elsewhere = adopted[0] if adopted else None, not adopted

    def _listens(self, pid: int) -> bool:
        with contextlib.suppress(psutil.Error):
            return bool(self._port and listeners(pid, self._port))
        return False

    def _is_right(self, answer: HttpResponse) -> bool:
        if self.ping is None:
            return answer.status == self._status
        return self.ping.fits(answer.status, answer.body)

    async def start_again(self) -> None:
        """Stop the remaining processes of the server, and start it again on the same port.

        Raises:
            CaseFailedError: the port is still in use.
        """
        await self.stop()
        self._begin()

    async def stop(self) -> None:
        """Stop the server and all its processes, and check that its port is free again."""
        if self._started is None:
            return
        await self._started.stop(self.grace_s)
        if self._container:
            await self._container.stop()
        port = self._port
        if port is not None and not await until(lambda: port_is_free(port), 1.0):
            raise CaseFailedError("port_kept", f"port {port} is still in use after the server was stopped")


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
async def running(plan: Plan, case: Case, record: Record, services: Services) -> AsyncIterator[Server]:
    """Start the server of a case; always stop it at the end, and record how long stopping takes.

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
                first += record.round * len(cases) + cases.index(case)
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


async def _stop(server: Server, record: Record, *, has_failed: bool) -> None:
    """Stop the server and record how long this takes; an error of this does not replace the one that came before."""
    began_s = time.monotonic()
    try:
        await server.stop()
    except CaseFailedError:
        task = asyncio.current_task()  # an error during cancellation would make the run continue
        if not has_failed and (task is None or not task.cancelling()):
            raise
    finally:
        record.stop_s = time.monotonic() - began_s
        record.server_said = server.last_words()
