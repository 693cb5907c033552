"""Run a warm server with simulated users and pings, so that the effects of a fault can be measured."""

import asyncio
import contextlib
import itertools
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import psutil

from under_siege.drill.incident_metrics import WINDOW_S, recovery_s
from under_siege.drill.task.drill_task import BEGUN, ENDLESS, FOLDER, LASTS
from under_siege.host.managed_process import until
from under_siege.host.resource_usage import tree_usage
from under_siege.host.services import Services
from under_siege.load.background import cancel, in_background
from under_siege.load.http_client import HttpResponse, client, open_request, raw_request, read_response
from under_siege.load.pings import probing
from under_siege.load.request import Request
from under_siege.load.streams import BROKEN, read_stream
from under_siege.measure.generator import END_S, Generator, generator
from under_siege.measure.plan import Plan, new_record
from under_siege.measure.server import Server, running
from under_siege.measure.warm_up import warm_up
from under_siege.paths import environment_variable
from under_siege.record.case import Case
from under_siege.record.record import CaseFailedError, Incident, Record
from under_siege.record.requests import (
    CHECK,
    LATE,
    LOAD,
    LOST,
    WRONG,
    Outcome,
    Requests,
    outcome_of,
)
from under_siege.suite.expected_response import Expectation

Filled = Callable[[str, Request], tuple[str, Request]]
_LONGEST_ID = 40  # maximum length of a process id in a header; longer values are truncated
PAUSE_S = 0.01  # how long a user pauses after a request without a correct response, to avoid a flood of requests
STREAM_TYPES = ("text/event-stream", "application/x-ndjson", "application/jsonl")
CONNECT_S = 2.0  # timeout for connecting
READ_EVERY_S = 0.1  # pause between two reads of a slow reader
READ_BUFFER_BYTES = 4096  # of the system for a slow reader; the usual one would read megabytes in advance


class Users:
    """Simulated users that send requests for one URL and record the outcome of each request.

    Args:
        fresh: a session that opens a new connection for each request; if None, `session` must do so.
        filled: fills the placeholders of a request.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        expected: Expectation,
        timeout_s: float,
        fresh: aiohttp.ClientSession | None = None,
        filled: Filled = lambda *request: request,
    ) -> None:
        self._session = session
        self._fresh = fresh or session
        self._filled = filled
        self._url = url
        self.expected = expected
        self.timeout_s = timeout_s
        self._turns = itertools.count()

    async def send(
        self, requests: Requests | None = None, began_s: float = 0.0, timeout_s: float | None = None
    ) -> Outcome:
        """Send one request and return its outcome."""
        sent_s = time.monotonic()
        outcome, _ = await self._outcome(self._session, timeout_s or self.timeout_s)
        if requests is not None:
            requests.add(LOAD, sent_s=sent_s - began_s, ended_s=time.monotonic() - began_s, outcome=outcome)
        return outcome

    async def send_check(self, incident: Incident, began_s: float) -> None:
        """Send one request of the recovery check, and record its outcome and the process that answered."""
        sent_s = time.monotonic()
        outcome, process = await self._outcome(self._fresh, self.timeout_s)
        incident.requests.add(CHECK, sent_s=sent_s - began_s, ended_s=time.monotonic() - began_s, outcome=outcome)
        incident.processes.append(process)

    async def _outcome(self, session: aiohttp.ClientSession, timeout_s: float) -> tuple[Outcome, str]:
        """Send a request, and return its outcome and the id of the process that answered (empty if unknown)."""
        url, expected = self.expected.for_request(self._url, next(self._turns))
        answer = await self._answer(session, url, expected, timeout_s)
        if not isinstance(answer, HttpResponse):
            return answer, ""
        process = answer.headers.get("x-worker", "").partition("/")[0][:_LONGEST_ID]
        is_right = not expected.problem(answer)
        return outcome_of(answer.status, [expected.status], has_right_body=is_right), process

    def next_request(self) -> tuple[str, Request, int]:
        """Return the URL of the next request, the request, and the status of a correct response."""
        url, expected = self.expected.for_request(self._url, next(self._turns))
        return *self._filled(url, expected.request), expected.status

    async def disconnect(self, count: int, stay_s: float) -> Expectation:
        """Send the same request from several clients that disconnect after `stay_s`; return the expected response."""
        url, expected = self.expected.for_request(self._url, next(self._turns))
        await asyncio.gather(*(self._answer(self._fresh, url, expected, stay_s) for _ in range(count)))
        return expected

    async def gets_a_stream(self, timeout_s: float) -> bool:
        """Return whether the suite reads responses as streams, or one response has the content type of a stream."""
        if self.expected.first_stream:
            return True
        url, expected = self.expected.for_request(self._url, next(self._turns))
        answer = await self._answer(self._session, url, expected, timeout_s)
        return not isinstance(answer, str) and answer.headers.get("content-type", "").startswith(STREAM_TYPES)

    @property
    def ends_streams(self) -> bool:
        """Return whether the server ends its streams, instead of the clients."""
        stream = self.expected.first_stream
        return stream is None or stream.most_events is stream.time_s is None

    @property
    def largest_bytes(self) -> int:
        """Return the size of the largest response that is not a stream."""
        return max((len(each.answer) for _, each in self.expected.each("") if not each.stream), default=0)

    async def read_to_end(self, requests: Requests, began_s: float, begins: Callable[[], None]) -> Outcome:
        """Read a response on a new connection until the server ends it, and return its outcome by status and framing.

        Args:
            begins: called when the first part of the body arrives.
        """
        url, request, status = self.next_request()
        sent_s, outcome = time.monotonic(), LOST
        with contextlib.suppress(aiohttp.ClientError, OSError):
            async with open_request(self._fresh, url, request) as response:
                has_begun = False
                async for _ in response.content.iter_any():
                    if not has_begun and response.status == status:
                        begins()
                    has_begun = True
                outcome = outcome_of(response.status, [status])
        requests.add(LOAD, sent_s=sent_s - began_s, ended_s=time.monotonic() - began_s, outcome=outcome)
        return outcome

    async def ask(self, url: str, timeout_s: float, method: str = "GET") -> HttpResponse | Outcome:
        """Send a request to another URL of the server, and return the response, LOST, LATE or WRONG (too long)."""
        return await self._answer(self._session, url, self.expected, timeout_s, Request(method))

    async def _answer(
        self,
        session: aiohttp.ClientSession,
        url: str,
        expected: Expectation,
        timeout_s: float,
        request: Request | None = None,
    ) -> HttpResponse | Outcome:
        sent_s = time.monotonic()
        try:
            url, sent = self._filled(url, request or expected.request)
            async with open_request(session, url, sent, timeout_s) as response:
                if expected.stream and request is None:
                    return await read_stream(response, expected.stream, sent_s)
                return await read_response(response, expected.answer)
        except CaseFailedError as failed:
            return LOST if failed.code == BROKEN else WRONG  # the body is too long
        except TimeoutError:
            return LATE
        except (aiohttp.ClientError, ValueError, OSError):
            return LOST

    @contextlib.asynccontextmanager
    async def slow_readers(self, count: int, bytes_per_s: int) -> AsyncIterator[None]:
        """Send requests on new connections, and read their responses at this rate while the context is active."""
        loop = asyncio.get_running_loop()

        async def read() -> None:
            url, request, _ = self.next_request()
            parts = urlsplit(url)
            with contextlib.suppress(OSError), socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, READ_BUFFER_BYTES)
                connection.setblocking(False)
                await loop.sock_connect(connection, (parts.hostname, parts.port or 80))
                await loop.sock_sendall(connection, raw_request(url, request))
                data = b"."
                while data:
                    await asyncio.sleep(READ_EVERY_S)
                    data = await loop.sock_recv(connection, max(1, round(bytes_per_s * READ_EVERY_S)))

        readers = [asyncio.create_task(read()) for _ in range(count)]
        try:
            yield
        finally:
            await cancel(readers)

    @contextlib.asynccontextmanager
    async def incomplete_requests(self, count: int, sent: bytes) -> AsyncIterator[None]:
        """Open connections that send only these bytes, and keep them open while the context is active."""
        parts, writers = urlsplit(self._url), list[asyncio.StreamWriter]()

        async def stall() -> None:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    _, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
                writers.append(writer)
                writer.write(sent)

        try:
            await asyncio.gather(*(stall() for _ in range(count)))
            yield
        finally:
            for writer in writers:
                writer.transport.abort()


USERS = 8  # few enough that even a server with two workers queues all requests and refuses none
PING_EVERY_S = 0.025
BEFORE_FAULT_S = 0.8  # duration of the load before the fault
LOOK_S = 0.02
MEMORY_LOOK_S = 0.05
IDLE_S, IDLE_CPUS = 0.15, 0.3  # a server is idle if it uses less than 0.3 CPUs for 0.15 s
MARGIN_S = 0.1  # how much longer the load runs after the recovery, because the report rounds times
STEADY_CPU_S = 0.02  # CPU time of a task, unless the fault sets a different one
STOP_S = 0.05  # timeout for the server's exit after the last fault
TIMEOUT_S = 5.0  # timeout of a request, at least
QUEUED = 2 * USERS  # a request may take as long as this number of requests to an idle server
QUICK_OF_IDLE, LEAST_QUICK_S = 4.0, 0.2  # a response within 4 times the idle response time, or within 0.2 s, is quick


def compute_task(cpu_s: float) -> str:
    """Return the specification of a task that uses this much CPU time."""
    return f"drill_task:compute({cpu_s:g})"


def quick_s(idle_answer_s: float | None) -> float:
    """Return the longest response time of a single request that counts as quick."""
    return max(LEAST_QUICK_S, QUICK_OF_IDLE * (idle_answer_s or 0.0))


class DrillTasks:
    """The tasks of the server under test, which share a directory with the drill: they report when they start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / BEGUN).touch()

    def set_cpu_time(self, cpu_s: float) -> None:
        """Set the CPU time of all tasks that start from now on."""
        new = self._folder / f"{LASTS}.new"
        new.write_text(str(cpu_s), encoding="ascii")
        new.rename(self._folder / LASTS)  # atomic, so that no task reads half of it

    def make_next_endless(self, name: str) -> None:
        """Ensure that the next task to start never ends."""
        (self._folder / f"{ENDLESS}{name}").touch()

    def has_pending_endless(self) -> bool:
        """Return whether a requested endless task has yet to start."""
        return any(self._folder.glob(f"{ENDLESS}*"))

    def started(self) -> int:
        """Return how many tasks have started."""
        return (self._folder / BEGUN).stat().st_size


@dataclass
class FaultContext:
    """A warm server, the means to load and disturb it, and the incident to record."""

    server: Server
    session: aiohttp.ClientSession
    users: Users
    tasks: DrillTasks
    warm: Record  # its warm-up
    processes: int  # number of processes that answered during the warm-up, or 0 if responses don't name their process
    keep_alive: bool
    incident: Incident
    began_s: float = field(default_factory=time.monotonic)

    @property
    def has_builtin_tasks(self) -> bool:
        """Return whether the server runs built-in tasks, which report their start and have an adjustable length."""
        return self.incident.values.get("task") is not None

    def now_s(self) -> float:
        """Return the number of seconds since the load began."""
        return time.monotonic() - self.began_s

    async def gets_a_stream(self, timeout_s: float) -> bool:
        """Return whether the load gets streams; the response to a built-in task is none."""
        return not self.has_builtin_tasks and await self.users.gets_a_stream(timeout_s)

    def set_task_cpu(self, cpu_s: float) -> None:
        """If the server runs built-in tasks, set the CPU time of all tasks that start from now on, and record it."""
        if self.has_builtin_tasks:
            self.tasks.set_cpu_time(cpu_s)
            self.incident.values["task"] = compute_task(cpu_s)

    @contextlib.asynccontextmanager
    async def under_load(self) -> AsyncIterator[None]:
        """Run load and pings; the body of the context starts once the rate before the fault has been measured."""
        incident = self.incident
        async with generator() as sending:
            await sending.set_up(self.server.plan.load.setup, self.server.url, USERS)
            self.began_s = time.monotonic()
            pinging = probing(
                self.session, self.server.url, self.server.ping, 1.0, incident.requests, self.began_s, PING_EVERY_S
            )
            async with pinging:
                await self._begin(sending, users=USERS)
                await asyncio.sleep(BEFORE_FAULT_S)
                yield
                incident.ended_s = self.now_s()
                await sending.end()

    @contextlib.asynccontextmanager
    async def sending_at_once(
        self, count: int, timeout_s: float
    ) -> AsyncIterator[Callable[[], Awaitable[list[Outcome]]]]:
        """Send requests at the same moment; yield a function that waits until all have ended, and returns outcomes.

        The function raises CaseFailedError if the generator does not report all of them.
        """
        requests, before = self.incident.requests, len(self.incident.requests)

        async def outcomes() -> list[Outcome]:
            if not await until(lambda: sending.ended >= count, timeout_s + END_S):
                why = f"the load generator reported the end of only {sending.ended} of {count} requests"
                raise CaseFailedError("generator_failed", why)
            return requests.rows(range(before, len(requests))).only(LOAD).outcome

        async with generator() as sending:
            await sending.set_up(self.server.plan.load.setup, self.server.url, 0)
            self.began_s = time.monotonic()
            await self._begin(sending, due_s=[0.0] * count, timeout_s=timeout_s)
            yield outcomes

    async def _begin(self, sending: Generator, **load: Any) -> None:
        await sending.begin(
            self.incident.requests,
            self.began_s,
            self.server.load_url,
            self.users.expected,
            keep_alive=self.keep_alive,
            failure_pause_s=PAUSE_S,
            **{"timeout_s": self.users.timeout_s, **load},
        )

    def mark_fault(self) -> float:
        """Record and return the time of the fault."""
        self.incident.fault_at_s = self.now_s()
        return self.incident.fault_at_s

    async def recovers_within(self, limit_s: float) -> bool:
        """Wait until the rate has recovered and no request fails; return False if this takes longer than `limit_s`."""
        assert self.incident.fault_at_s is not None
        while (now_s := self.now_s()) < self.incident.fault_at_s + limit_s:
            if recovery_s(self.incident, now_s - WINDOW_S - MARGIN_S) is not None:
                return True
            await asyncio.sleep(LOOK_S)
        return False

    def cpu_s(self) -> float:
        """Return the CPU time that the server and all its descendants have used."""
        usage = tree_usage(self.server.pid, memory=False) if self.server.pid is not None else None
        return usage.cpu_s if usage else 0.0

    def memory_bytes(self) -> int:
        """Return the memory that the server and all its descendants use."""
        usage = tree_usage(self.server.pid)
        return usage.memory_bytes if usage else 0

    @contextlib.asynccontextmanager
    async def watching_memory(self) -> AsyncIterator[None]:
        """Record the memory of the server before, and the peak while the context is active."""
        seen = self.incident.seen
        seen["memory_before_bytes"] = seen["memory_bytes"] = self.memory_bytes()

        async def watch() -> None:
            while True:
                seen["memory_bytes"] = max(seen["memory_bytes"], await asyncio.to_thread(self.memory_bytes))
                await asyncio.sleep(MEMORY_LOOK_S)

        async with in_background(watch()):
            yield

    async def is_idle(self, cpus: float = IDLE_CPUS) -> bool:
        """Return whether the server uses fewer CPUs than this; background work uses some even in an idle server."""
        before_s, began_s = self.cpu_s(), time.monotonic()
        await asyncio.sleep(IDLE_S)
        return self.cpu_s() - before_s < cpus * (time.monotonic() - began_s)

    def child_processes(self) -> list[psutil.Process]:
        """Return all descendants of the server's main process."""
        with contextlib.suppress(psutil.Error):
            return [child for main in self.main_process() for child in main.children(recursive=True)]
        return []

    def main_process(self) -> list[psutil.Process]:
        """Return the server's main process, if it is known and running."""
        main = self.server.process
        return [main] if main is not None and main.is_running() else []

    def signal(self, number: int) -> None:
        """Send a signal to the server's main process; raise psutil.Error if it has ended or belongs to another user."""
        assert self.server.process is not None
        if not self.server.alive():  # a zombie would accept the signal
            raise psutil.NoSuchProcess(self.server.process.pid)
        self.server.process.send_signal(number)


ContextOf = Callable[[Incident], FaultContext]


@contextlib.asynccontextmanager
async def warm_server(
    plan: Plan, case: Case, expected: Expectation, services: Services, case_round: int
) -> AsyncIterator[ContextOf]:
    """Start and warm up the server of a case, and stop it when the context ends.

    Yields:
        A function that prepares the server for a fault, and returns the context for injecting it.

    Raises:
        CaseFailedError: the server does not start.
    """
    record = new_record(plan, case, 0.0, case_round)
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="drill-", dir=os.environ.get("TMPDIR")))
        tasks = DrillTasks(Path(folder))
        stack.enter_context(environment_variable(FOLDER, folder))
        fresh = await stack.enter_async_context(client())
        keep_alive = plan.load_of(case).keep_alive
        session = await stack.enter_async_context(client(keep_alive=keep_alive))
        server = await stack.enter_async_context(running(plan, case, record, services))
        processes = await warm_up(server, fresh, expected, record)
        server.grace_s = STOP_S  # the shutdown can be short, because a separate fault tests it
        timeout_s = max(TIMEOUT_S, QUEUED * (record.idle_answer_s or 0.0))
        users = Users(session, server.load_url, expected, timeout_s, fresh, server.user.filled)

        def context_of(incident: Incident) -> FaultContext:
            incident.workers, incident.idle_answer_s = record.workers, record.idle_answer_s
            context = FaultContext(
                server=server,
                session=session,
                users=users,
                tasks=tasks,
                warm=record,
                processes=len(processes),
                keep_alive=keep_alive,
                incident=incident,
            )
            context.set_task_cpu(STEADY_CPU_S)
            return context

        yield context_of
