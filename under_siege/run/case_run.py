"""Measure the cases of every round, one after the other, and record each outcome, including failures."""

import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

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
from under_siege.monitors.cpu_speed_probe import SpeedProbe, machine_between, speed_probe, watching_machine
from under_siege.monitors.ping import INTERVAL_S, probing
from under_siege.monitors.resource_usage import sampling, tree_usage, watching_ports
from under_siege.monitors.task_baseline import BaselineWorker, baseline_worker
from under_siege.run.ceiling import compute_bare
from under_siege.run.duration import Length
from under_siege.run.load_run import Running, at_the_start, drive, order_of
from under_siege.run.plan import Plan, ProgressListener, new_record
from under_siege.run.request_replay import IN_A_ROW, ReplayedRequest, RequestReplays
from under_siege.run.server import Server, running
from under_siege.run.start_command import checking
from under_siege.run.warm_up import last_pong, verify, warm_up
from under_siege.targets.expectation import Expectation, Expectations, Files


async def check_afterwards(plan: Plan, case: Case, server: Server, record: Record, services: Services) -> None:
    """Run the suite's own check, if it has one.

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
class CaseRun:
    """All that measuring a case needs, and the record that it fills."""

    plan: Plan
    case: Case
    tool: Tool
    replays: RequestReplays
    expected: Expectation
    length: Length
    services: Services
    record: Record
    watcher: ProgressListener
    after_siege: AfterSiege | None = None  # who goes on with the server, before it is stopped

    async def measure(self) -> None:
        """Measure the case. Whatever goes wrong with the server is a failure in the record."""
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
        """Run the suite's warm-up load, in which servers compile what they compile while they serve."""
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
        """Run a load that leaves nothing in the record; return how many answers came."""
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
        like = await self.replays.of(order)
        async with at_the_start(self.tool, order, self.record) as running:
            await self._loaded(server, session, order, running, like)

    async def _loaded(
        self,
        server: Server,
        session: aiohttp.ClientSession,
        order: LoadSpec,
        running: Running | None,
        like: ReplayedRequest | None,
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


Choose = Callable[[list[Case], Mapping[Case, float]], list[Case]]


async def run(
    plan: Plan,
    tool: Tool,
    expectations: Expectations,
    services: Services,
    watcher: ProgressListener,
    save: Callable[[Record], None],
    choose: Choose,
    after_last_siege: AfterSiege | None = None,
) -> None:
    """Measure the cases of every round that are chosen, and save each record as soon as it is complete.

    Args:
        choose: returns those cases of a round that are measured, given how long each took the last time.
        after_last_siege: goes on with each server in the last planned round, before it is stopped.
    """
    async with contextlib.AsyncExitStack() as stack:
        ticking = await stack.enter_async_context(speed_probe())
        baselines = await _baseline_workers(plan, expectations, stack)
        replays, took_s = RequestReplays(tool), dict[Case, float]()
        for round_, cases in enumerate(plan.in_order(), 1):
            chosen = choose(cases, took_s)
            for case in chosen:
                began_s = time.monotonic()
                jobs = plan.load.posts_jobs
                expected = replace(expectations[case.work], headers=plan.headers_of(case), of_a_job=jobs)
                length = Length(plan.load.time_s, case.users, expected)
                record = new_record(plan, case, length.end_s, round_)
                watcher.case_begins(f"round {round_}  {record.server}", length.end_s)
                async with beside_the_machine(record, ticking, baselines.get(case.work)):
                    after = after_last_siege if round_ == plan.rounds else None
                    case_run = CaseRun(plan, case, tool, replays, expected, length, services, record, watcher, after)
                    await case_run.measure()
                save(record)
                took_s[case] = time.monotonic() - began_s
                watcher.case_ends()
            if not chosen:
                return


async def _baseline_workers(
    plan: Plan, expectations: Expectations, stack: contextlib.AsyncExitStack
) -> dict[object, BaselineWorker]:
    """Start a process for each task that performs it alone, between sieges."""
    workers = dict[object, BaselineWorker]()
    for case in {case.work: case for case in plan.cases if plan.suite.has_task}.values():
        patience_s = expectations[case.work].patience_s(users=1)
        worker = baseline_worker(case.task, plan.python_of(case), patience_s, plan.suite.folder)
        workers[case.work] = await stack.enter_async_context(worker)
    return workers


@contextlib.asynccontextmanager
async def beside_the_machine(record: Record, ticking: SpeedProbe, alone: BaselineWorker | None) -> AsyncIterator[None]:
    """Record the speed of the machine: the speed probe, and the task alone before and after the body."""
    began_s = time.monotonic()
    async with ticking.beside(record, math.inf if alone is None else alone.fresh_since_s(record)):
        if alone is not None:
            await alone.perform(record)
        yield
        if alone is not None:
            await alone.perform(record)
    zero_s = began_s if record.load_began_s is None else record.load_began_s
    for column in (record.beats.at_s, record.cpu_times.at_s, record.alone_at_s):
        column[:] = [round(at_s - zero_s, 4) for at_s in column]
