"""A turn: one case, measured once, and recorded whatever becomes of it."""

import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import aiohttp
import msgspec
import psutil

from common.errors import BadInputError, one_line
from under_siege.environments.services import Services
from under_siege.environments.tool_install import Tool
from under_siege.environments.venvs import run_command
from under_siege.errors import CaseFailedError
from under_siege.http_client import client
from under_siege.load_tools.tool import LoadSpec
from under_siege.model.case import Case
from under_siege.model.record import Bursts, Failure, Record, Transactions
from under_siege.model.suite import Load
from under_siege.monitors.answer_check import Checker, interval_s
from under_siege.monitors.cpu_speed_probe import machine_between, watching_machine
from under_siege.monitors.ping import INTERVAL_S, probing
from under_siege.monitors.port_usage import watching_ports
from under_siege.monitors.resource_usage import sampling, tree_usage
from under_siege.run.ceiling import compute_bare
from under_siege.run.duration import Length
from under_siege.run.load_run import Running, at_the_start, drive, order_of
from under_siege.run.plan import Plan
from under_siege.run.progress_listener import ProgressListener
from under_siege.run.request_replay import IN_A_ROW, Imitation, Imitations
from under_siege.run.server import Server, running
from under_siege.run.start_command import checking
from under_siege.run.warm_up import last_pong, verify, warm_up
from under_siege.targets.expectation import Expectation, Files


async def check_afterwards(plan: Plan, case: Case, server: Server, record: Record, services: Services) -> None:
    """Returns if it ends with 0, or if the suite has none.

    Raises:
        CaseFailedError: with the last line that it said.
    """
    if not plan.suite.expect.check:
        return
    answers = sum(record.bursts.right) + record.transactions.status.count(record.answer_status)
    told = record.bursts.body_bytes or [sum(record.transactions.size_bytes)]
    bytes_ = sum(filter(None, told)) if None not in told else ""  # not every tool tells
    places = {"url": server.load_url, "folder": server.folder, "answers": answers, "bytes": bytes_}
    start = checking(plan, case, places | await services.addresses(plan.targets[case.server].needs))
    try:
        await run_command(start.words, start.folder, start.environment)
    except BadInputError as error:
        raise CaseFailedError("wrong_answer", f"the suite's own check, after the load: {error}") from None
    except OSError as error:
        raise CaseFailedError("no_check", f"{start.words[0]!r} can't be started: {one_line(error)}") from None


AfterSiege = Callable[[Case, Server, aiohttp.ClientSession, Record], Awaitable[None]]
FIRST_PART = 6  # the first sixth of a warm-up tells what answers cost before the server is warm


@dataclass(frozen=True, slots=True)
class Turn:
    """All that measuring a case needs, and the record that it fills."""

    plan: Plan
    case: Case
    tool: Tool
    imitations: Imitations
    expected: Expectation
    length: Length
    services: Services
    record: Record
    watcher: ProgressListener
    after_siege: AfterSiege | None = None  # who goes on with the server, before it is stopped

    async def measure(self) -> None:
        """Measures the case. Whatever goes wrong with the server is a failure in the record."""
        began_s, record = time.monotonic(), self.record
        record.answer_bytes, record.answer_status = self.expected.size_bytes, self.expected.status
        try:
            await (self._bare() if self.plan.targets[self.case.server].is_bare else self._served())
        except CaseFailedError as failed:
            record.failure = Failure(failed.code, str(failed))
        except Exception as error:  # a mistake of this program must not cost the other cases
            record.failure = Failure("bench_error", f"the bench itself failed, please report it: {one_line(error)}")
        record.time_s = self.length.end_s
        record.case_s = time.monotonic() - began_s

    async def _bare(self) -> None:
        python, self.record.tool = self.plan.pythons[self.case.python], self.tool.driver.name
        tell, folder = self.watcher.answer_came, self.plan.suite.folder
        await compute_bare(self.case, python, self.expected, self.record, self.length, tell, folder=folder)

    async def _served(self) -> None:
        machine_before = psutil.cpu_times()
        async with client() as session, running(self.plan, self.case, self.record, self.services) as server:
            await warm_up(server, session, self.expected, self.record)
            await self._load_that_does_not_count(server)
            self.record.machine_before = machine_between(machine_before, psutil.cpu_times())
            await self._under_load(server, session)
            if self.after_siege is not None:
                await self.after_siege(self.case, server, session, self.record)

    async def _load_that_does_not_count(self, server: Server) -> None:
        """The same load before, as much as the suite says: what compiles while it serves has done so then."""
        load, users = self.plan.warm_up_of(self.case), self.record.users
        if load is None:
            return
        parts = [load]
        if load.requests is not None and load.requests >= 2 * FIRST_PART * users:
            first = load.requests // FIRST_PART
            parts = [replace(load, requests=first), replace(load, requests=load.requests - first)]
        used_s = _cpu_s(server)
        self.record.warm_up_answers = await self._unseen(server, parts[0])
        if used_s is not None and (now_s := _cpu_s(server)) is not None:
            self.record.warm_up_cpu_s = max(0.0, round(now_s - used_s, 4))
        for rest in parts[1:]:
            await self._unseen(server, rest)

    async def _unseen(self, server: Server, load: Load) -> int:
        """A load that leaves nothing in the record; how many answers came."""
        unseen = msgspec.structs.replace(
            self.record, load_began_s=time.monotonic(), bursts=Bursts(), transactions=Transactions()
        )
        length = Length(load.time_s, self.record.users, self.expected)
        order = self._order(server, load, length)
        await server.while_alive(drive(self.tool, order, unseen, length, lambda: None))
        counted = (*unseen.bursts.right, *unseen.bursts.wrong_status)
        return sum(counted) + len(unseen.transactions.took_s)

    def _order(self, server: Server, load: Load, length: Length) -> LoadSpec:
        files, path = self.expected.files, load.path
        paths = [(Files.path(path, name), size) for name, size in files.sizes.items()] if files else []
        url, users = server.url + (paths[0][0] if paths else path), self.record.users
        order = order_of(load, users, length.end_s, url, paths, server.folder)
        expected = self.expected.answer if self.expected.size_bytes >= 0 else b""
        return replace(order, patience_s=self.expected.patience_s(users), expected=expected)

    async def _under_load(self, server: Server, session: aiohttp.ClientSession) -> None:
        order = self._order(server, self.plan.load_of(self.case), self.length)
        like = await self.imitations.of(order)
        async with at_the_start(self.tool, order, self.record) as running:
            await self._loaded(server, session, order, running, like)

    async def _loaded(
        self,
        server: Server,
        session: aiohttp.ClientSession,
        order: LoadSpec,
        running: Running | None,
        like: Imitation | None,
    ) -> None:
        record, patience_s = self.record, self.expected.patience_s(self.record.users)

        def ask(in_a_row: int) -> Awaitable[object]:
            asked = replace(like, in_a_row=in_a_row if order.keep_alive else 1) if like else None
            return server.explaining(verify(session, server.load_url, self.expected, record.users, asked))

        record.load_began_s = began_s = time.monotonic()
        checker = Checker(ask, record.checks, began_s)
        beside = [  # what goes on beside the load: whoever else wants to watch is one more line
            # Not at once: to start the load tool takes us some milliseconds, by which that ping would be late.
            probing(session, server.url, server.ping, patience_s, record.pings, began_s, after_s=INTERVAL_S),
            checker.checking(interval_s(self.expected.task_s), lambda: self.length.end_s),
            *([sampling(server.pid, record, began_s)] if server.pid is not None else []),
            watching_machine(record),
            watching_ports(record, began_s),
        ]
        async with contextlib.AsyncExitStack() as watching:
            watching.enter_context(self.services.watching(self.plan.targets[self.case.server].needs, record))
            for one in beside:
                await watching.enter_async_context(one)
            driven = drive(self.tool, order, record, self.length, self.watcher.answer_came, running)
            await server.while_alive(driven)
        await server.while_alive(check_afterwards(self.plan, self.case, server, record, self.services))
        # The last answer comes when the server has done what the load tool left in its line.
        await server.while_alive(checker.check(IN_A_ROW))
        pong = await server.while_alive(last_pong(session, server, patience_s))
        if record.checks.code[-1] or (pong is None and server.ping is not None):
            await server.must_live()
        record.gil = {"on": True, "off": False}.get(pong.headers.get("x-gil", "")) if pong else None
        record.gil_enabled_by = server.gil_enabled_by()


def _cpu_s(server: Server) -> float | None:
    used = tree_usage(server.pid, memory=False) if server.pid is not None else None
    return used.cpu_s if used else None


def new_record(plan: Plan, case: Case, time_s: float, round_: int) -> Record:
    """An empty record for a case that is about to be measured."""
    workers = case.get("workers")
    return Record(
        server=case.server,
        title=plan.targets[case.server].title,
        values=dict(case.values),
        is_ceiling=case in plan.ceilings,
        has_ceiling=bool(plan.ceilings),
        has_task=plan.suite.has_task,
        workers=None if workers is None else int(workers),
        round=round_,
        time_s=time_s,
        began_at=datetime.now(UTC).isoformat(timespec="seconds"),
        load_average=psutil.getloadavg()[0],
    )
