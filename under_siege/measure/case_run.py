"""Measure the cases of every round, one after the other, and record each outcome, including failures."""

import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import aiohttp
import msgspec
import psutil

from common.errors import BadInputError, one_line
from under_siege.host.commands import run_command
from under_siege.host.limits import Limits, limited, watching_limits
from under_siege.host.machine_speed import (
    machine_between,
    watching_machine,
)
from under_siege.host.resource_usage import sampling, watching_ports
from under_siege.host.server_processes import ProcessWatch
from under_siege.load.answer_check import AnswerCheck, check_interval_s
from under_siege.load.background import in_background
from under_siege.load.http_client import HttpResponse, client
from under_siege.load.pings import QUIET_S, probing, probing_alone
from under_siege.load.request import PING_INTERVAL_S, Load
from under_siege.load.tool import LoadSpec
from under_siege.measure.after_load import pending, watch_drain, watch_new_processes
from under_siege.measure.load_run import LoadRun, run_ceiling
from under_siege.measure.plan import Plan
from under_siege.measure.server import Server, running
from under_siege.measure.server_command import suite_command
from under_siege.measure.session import Session
from under_siege.measure.siege_length import Length
from under_siege.measure.warm_up import (
    REQUESTS_ON_A_CONNECTION,
    RequestReplays,
    last_pong,
    verify,
    warm_up,
)
from under_siege.record.case import Case
from under_siege.record.record import Bursts, CaseFailedError, Failure, Record
from under_siege.record.requests import CHECK, CORRECT, LATE, LOAD, LOST, OPEN, Requests
from under_siege.suite.expected_response import Expectation, Files

AfterSiege = Callable[["CaseRun", Server], Awaitable[None]]
# How long a server may take to exit after a screening siege: some would first compute all requests in their queue.
SCREENING_GRACE_S = 0.5
FIRST_PART = 6  # divisor: the first 1/6 of a warm-up shows how much CPU time a cold server uses


@dataclass(frozen=True, slots=True)
class CaseRun:
    """One measurement of a case: its inputs, and the record for its results."""

    session: Session
    case: Case
    expected: Expectation
    length: Length
    record: Record
    replays: RequestReplays
    after_siege: Sequence[AfterSiege] = ()  # functions to call before the server stops
    is_screening: bool = False  # whether the siege only has to show roughly how high the rate is

    @property
    def plan(self) -> Plan:
        """Return the plan of the session."""
        return self.session.plan

    async def measure(self) -> None:
        """Measure the case. Any problem with the server becomes a failure in the record."""
        began_s, record = time.monotonic(), self.record
        record.answer_bytes, record.answer_status = self.expected.size_bytes, self.expected.status
        record.other_statuses = self.expected.other_statuses()
        record.mix = self.expected.sent_mix()
        record.is_screening = self.is_screening
        record.stream, record.text_events = self.expected.read_as
        try:
            if self.plan.targets[self.case.server].has_no_server:
                await self._measure_ceiling()
            else:
                await self._measure_server()
        except CaseFailedError as failed:
            record.failure = Failure(failed.code, str(failed))
        except Exception as error:  # a bug in the bench must not affect the other cases
            record.failure = Failure("bench_error", f"internal error, please report it: {one_line(error)}")
        record.time_s = self.length.end_s
        record.case_s = time.monotonic() - began_s

    async def _measure_ceiling(self) -> None:
        python, self.record.tool = self.plan.pythons[self.case.python], self.session.tool.driver.name
        tell, folder = self.session.watcher.answer_came, self.plan.suite.folder
        with limited(Limits.of(self.case)) as group:
            await run_ceiling(self.case, python, self.expected, self.record, self.length, tell, folder, group)

    async def _measure_server(self) -> None:
        machine_before = psutil.cpu_times()
        async with (
            client() as http,
            running(self.plan, self.case, self.record, self.session.services) as server,
        ):
            await warm_up(server, http, self.expected, self.record)
            await self._send_warm_up_load(server)
            jobs = self._jobs(server, http)
            if jobs is not None:
                await jobs()  # if this request fails, it should fail before the load
            self.record.machine_before = machine_between(machine_before, psutil.cpu_times())
            spec = self._spec(server, self.plan.load_of(self.case), self.length)
            replay = await self.replays.of(spec)
            if replay and spec.load.keep_alive:  # fail before the load
                twice = replace(replay, in_a_row=2)
                await server.while_alive(verify(http, server, self.expected, self.case.users, twice))
            load_run = LoadRun(self.session.tool, spec, self.record)
            async with load_run.ready():

                def ask(in_a_row: int) -> Awaitable[object]:
                    asked = replace(replay, in_a_row=in_a_row if spec.load.keep_alive else 1) if replay else None
                    return server.explaining(verify(http, server, self.expected, self.case.users, asked))

                async with in_background(watch_new_processes(self.record, server.children, new := set[int]())):
                    waiting = await self._measure_load(server, http, load_run, ask, jobs)
                    if (server.pid is not None or jobs is not None) and not self.is_screening:
                        limit_s = self.plan.suite.drain_limit_s
                        await watch_drain(self.record, server.cpu_s, jobs, waiting, limit_s, new)
            for go_on in self.after_siege:
                await go_on(self, server)

    def _jobs(self, server: Server, http: aiohttp.ClientSession) -> Callable[[], Awaitable[float]] | None:
        """Return a function that requests the number of queued jobs; if the suite has no `backlog`, return `None`."""
        if (backlog := self.plan.suite.backlog) is None:
            return None
        return partial(pending, http, server.url, backlog, self.expected.timeout_s(self.case.users))

    async def _send_warm_up_load(self, server: Server) -> None:
        """Run the suite's warm-up load, so that servers complete their just-in-time compilation."""
        load, users = self.plan.warm_up_of(self.case), self.case.users
        if load is None:
            return
        parts = [load]
        if load.requests is not None and load.requests >= 2 * FIRST_PART * users:
            first = load.requests // FIRST_PART
            parts = [replace(load, requests=first), replace(load, requests=load.requests - first)]
        before_s = server.cpu_s()
        self.record.warm_up_answers = await self.count_answers(server, parts[0])
        if before_s is not None and (after_s := server.cpu_s()) is not None:
            self.record.warm_up_cpu_s = max(0.0, round(after_s - before_s, 4))
        for rest in parts[1:]:
            await self.count_answers(server, rest)

    async def count_answers(self, server: Server, load: Load, begins: Callable[[], object] = lambda: None) -> int:
        """Run a load without recording it, and return the number of responses; call `begins` after the setup."""
        unseen = msgspec.structs.replace(self.record, bursts=Bursts(), requests=Requests())
        length = Length(load.time_s, self.case.users, self.expected)
        warming = LoadRun(self.session.tool, self._spec(server, load, length), unseen)
        async with warming.ready():
            unseen.load_began_s = time.monotonic()
            begins()
            await server.while_alive(warming.drive(length, lambda: None))
        return sum((*unseen.bursts.right, *unseen.bursts.wrong_status)) + sum(
            outcome not in (OPEN, LOST, LATE) for outcome in unseen.requests.outcome
        )

    def _spec(self, server: Server, load: Load, length: Length) -> LoadSpec:
        files, users = self.expected.files, self.case.users
        paths = tuple((Files.path(load.path, name), size) for name, size in files.sizes.items()) if files else ()
        return LoadSpec(
            load,
            users,
            time_s=length.end_s,
            url=server.url + (paths[0][0] if paths else load.path),
            paths=paths,
            folder=server.folder,
            timeout_s=self.expected.timeout_s(users),
            order=tuple(self.plan.load.order(self.plan.seed, self.record.round)) if self.expected.mix else (),
            seed=self.record.round,
            rights=tuple(each.right for _, each in self.expected.each("")),
            stagger_s=min(self.expected.task_s, length.end_s / 3) if load.stream else 0.0,
            expected=b"" if self.expected.size_bytes < 0 or self.record.content_encoding else self.expected.answer,
        )

    async def _measure_load(
        self,
        server: Server,
        http: aiohttp.ClientSession,
        load_run: LoadRun,
        ask: Callable[[int], Awaitable[object]],
        jobs: Callable[[], Awaitable[float]] | None,
    ) -> float | None:
        """Measure the server under load; return how many jobs are queued at the end of the load, if known."""
        record, timeout_s = self.record, self.expected.timeout_s(self.case.users)
        if self.is_screening:  # after the load, the ping would wait for the requests in the queue
            _note_gil(record, await server.while_alive(last_pong(http, server, timeout_s)))
        record.load_began_s = began_s = time.monotonic() + load_run.lead_s
        check = AnswerCheck(ask, record.requests, began_s, is_cut=self.is_screening)
        record.listens_elsewhere = server.listens_elsewhere
        async with contextlib.AsyncExitStack() as watching:
            watching.enter_context(watching_limits(server.group, record))
            watching.enter_context(self.session.services.watching(self.plan.targets[self.case.server].needs, record))
            for monitor in self._monitors(server, http, check, began_s):
                await watching.enter_async_context(monitor)
            driven = load_run.drive(self.length, self.session.watcher.answer_came)
            await server.while_alive(driven)
        record.gil_enabled_by = server.gil_enabled_by()
        if self.is_screening:
            server.grace_s = SCREENING_GRACE_S
            return None
        waiting = await jobs() if jobs else None
        await server.while_alive(self._run_own_check(server))
        # This response arrives after the server has processed the requests still queued at the end of the load.
        await server.while_alive(check.check(REQUESTS_ON_A_CONNECTION))
        pong = await server.while_alive(last_pong(http, server, timeout_s))
        if record.requests.only(CHECK).outcome[-1] != CORRECT or (pong is None and server.ping is not None):
            await server.must_live()
        _note_gil(record, pong)
        return waiting

    def _monitors(
        self, server: Server, http: aiohttp.ClientSession, check: AnswerCheck, began_s: float
    ) -> list[contextlib.AbstractAsyncContextManager[None]]:
        """Return what runs beside the load: pings, response checks, and samples of resource usage."""
        record, cut = self.record, self.is_screening
        pinged = http, server.url, server.ping, self.expected.timeout_s(self.case.users)
        return [
            # Send the first ping after one interval; starting the load tool would delay an earlier one by milliseconds.
            probing(*pinged, record.requests, began_s, first_s=PING_INTERVAL_S, quiet_s=QUIET_S, is_cut=cut),
            probing_alone(*pinged, record.requests, began_s, is_cut=cut),
            check.checking(check_interval_s(self.expected.task_s), lambda: self.length.end_s),
            sampling(server.pid, record, began_s, watch=ProcessWatch(record, server.port)),
            watching_machine(record),
            watching_ports(record, began_s),
        ]

    async def _run_own_check(self, server: Server) -> None:
        """Run the suite's check, if there is one; raise CaseFailedError with the reason if it fails."""
        if not self.plan.suite.expect.check:
            return
        record = self.record
        rows = record.requests.only(LOAD)
        answers = sum(record.bursts.right) + sum(status in record.right_statuses for status in rows.status)
        sizes = record.bursts.body_bytes or [sum(rows.size_bytes)]
        size = "" if None in sizes else sum(filter(None, sizes))  # some tools don't report sizes
        values = {"url": server.load_url, "folder": server.folder, "answers": answers, "bytes": size}
        addresses = await self.session.services.addresses(self.plan.targets[self.case.server].needs)
        start = suite_command(self.plan, self.case, self.plan.suite.expect.check, values, addresses)
        try:
            await run_command(start.words, start.folder, start.environment)
        except BadInputError as error:
            raise CaseFailedError("wrong_answer", f"after the load, the suite's check failed: {error}") from None
        except OSError as error:
            raise CaseFailedError("no_check", f"{start.words[0]!r} can't be started: {one_line(error)}") from None


def _note_gil(record: Record, pong: HttpResponse | None) -> None:
    """Record whether the server's response to a ping says that the GIL is enabled."""
    record.gil = {"on": True, "off": False}.get(pong.headers.get("x-gil", "")) if pong else None
