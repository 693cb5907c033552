"""The tracer: a handful of requests at once, with pings beside them, and what the answers tell of who ran when."""

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

import aiohttp
import psutil

from common.errors import one_line
from under_siege.environments.services import Services
from under_siege.errors import CaseFailedError
from under_siege.http_client import Answer, client
from under_siege.model.case import Case
from under_siege.model.record import Failure, Record, Result, Trace
from under_siege.model.result_file import LONGEST_S
from under_siege.model.suite import SERVICES
from under_siege.monitors.cpu_speed_probe import machine_between
from under_siege.monitors.ping import probing
from under_siege.monitors.resource_usage import tree_usage
from under_siege.run.plan import Plan, ProgressListener, new_record
from under_siege.run.server import Server, running
from under_siege.run.session import Keep, run_and_save, traced_case
from under_siege.run.warm_up import verify, warm_up
from under_siege.targets.expectation import Expectation, Expectations
from under_siege.trace.timeline import is_crowded

PING_INTERVAL_S = 0.025
PINGS_AROUND = 3  # so many before the requests and after their answers, to see what is usual
CLOCKS_AGREE_S = 0.005  # what is told to have happened so much before it was asked for is not believed

Stretch = tuple[float, float, float | None]  # from, to, and how much of it was computed


def trace_servers(
    plan: Plan, requests: int, watcher: ProgressListener, command: Sequence[str]
) -> tuple[Result, int | None]:
    """Trace every strategy with so many requests, without a siege. Nothing is saved.

    Returns:
        What was seen, and the number of the signal that stopped it or None.
    Raises:
        BadInputError: a task can't be performed; nothing was started.
    """

    async def work(ready: Plan, _: Result, expectations: Expectations, services: Services, keep: Keep) -> None:
        await Tracer(ready, expectations, keep, requests).rest(services, watcher)

    return run_and_save(plan, None, watcher, command, work)[:2]


class Tracer:
    """Trace each strategy with each task under each Python once, in the server of its last siege if that still runs."""

    def __init__(self, plan: Plan, expectations: Expectations, keep: Callable[[Trace], None], requests: int) -> None:
        self._plan, self._requests, self._expectations, self._keep = plan, requests, expectations, keep
        self._found: set[Case] = set()

    async def after_siege(self, case: Case, server: Server, _: aiohttp.ClientSession, record: Record) -> None:
        """The trace of a case that was just under siege, and is warm; another one with other users may have been."""
        if not record.is_ceiling and (what := traced_case(case)) not in self._found:
            found = await _twice_if_crowded(lambda: self._of_running(what, server, record))
            if found.failure is None:
                self._keep(found)
                self._found.add(what)

    async def rest(self, services: Services, watcher: ProgressListener) -> None:
        """All others, each with a server of its own; keeps each trace as soon as it is complete."""
        for case in dict.fromkeys(map(traced_case, self._plan.cases)):
            watcher.case_begins(f"trace  {case.server}", 0.0)
            if case not in self._found:
                self._keep(await _twice_if_crowded(partial(self._alone, case, services)))
            watcher.case_ends()

    async def _of_running(self, case: Case, server: Server, record: Record) -> Trace:
        found = self._empty(case)
        with _failing(found):
            await self._besides_pings(server, record.workers, found)
        return found

    async def _alone(self, case: Case, services: Services) -> Trace:
        """Of a server that is started for that. Whatever goes wrong with it is a failure in the trace."""
        found, expected = self._empty(case), self._plan.expected_of(case, self._expectations)
        record = new_record(self._plan, case, 0.0, 1)  # of starting and stopping; nothing of it is kept
        with _failing(found):
            async with client() as session, running(self._plan, case, record, services) as server:
                await warm_up(server, session, expected, record)
                await self._besides_pings(server, record.workers, found, services)
        return found

    def _empty(self, case: Case) -> Trace:
        return Trace(server=case.server, title=self._plan.targets[case.server].title, values=dict(case.values))

    async def _besides_pings(
        self, server: Server, workers: int | None, found: Trace, services: Services | None = None
    ) -> None:
        found.workers = workers
        expected = self._plan.expected_of(found.case, self._expectations)
        async with client(keep_alive=self._plan.load_of(found.case).keep_alive) as session:
            cpu_s = partial(self._cpu_s, server, found.case, services)
            await server.while_alive(_besides_pings(session, server, expected, self._requests, found, cpu_s))

    def _cpu_s(self, server: Server, case: Case, services: Services | None) -> float | None:
        """Return the CPU time that the server and its services have used; None if that is not known here."""
        usage = tree_usage(server.pid, memory=False) if server.pid is not None else None
        needs = [name for name in self._plan.targets[case.server].needs if name in SERVICES]
        if usage is None or (needs and services is None):
            return None
        return usage.cpu_s + ((services.cpu_s(needs) if services else None) or 0.0)


async def _twice_if_crowded(trace: Callable[[], Awaitable[Trace]]) -> Trace:
    """Trace once more if other work left no room for two tasks: it may be gone by then."""
    found = await trace()
    return await trace() if is_crowded(found) else found


@contextlib.contextmanager
def _failing(found: Trace) -> Iterator[None]:
    try:
        yield
    except CaseFailedError as failed:
        found.failure = Failure(failed.code, str(failed))
    except Exception as error:  # a mistake of this program must not cost the other cases
        found.failure = Failure("bench_error", f"the bench itself failed, please report it: {one_line(error)}")


async def _besides_pings(
    session: aiohttp.ClientSession,
    server: Server,
    expected: Expectation,
    requests: int,
    found: Trace,
    cpu_s: Callable[[], float | None],
) -> None:
    began_s, patience_s, url = time.monotonic(), expected.patience_s(requests), server.load_url
    async with probing(session, server.url, server.ping, patience_s, found.pings, began_s, PING_INTERVAL_S):
        await asyncio.sleep((PINGS_AROUND - 0.5) * PING_INTERVAL_S)
        with _watching_machine(found, cpu_s):
            await asyncio.gather(*(_request(session, url, expected, requests, found, began_s) for _ in range(requests)))
        await asyncio.sleep(PINGS_AROUND * PING_INTERVAL_S)


@contextlib.contextmanager
def _watching_machine(found: Trace, cpu_s: Callable[[], float | None]) -> Iterator[None]:
    """Record what the machine, the server and this program do while the body runs."""
    before, server_before_s, own_before_s = psutil.cpu_times(), cpu_s(), time.process_time()
    yield
    found.bench_cpu_s, server_after_s = time.process_time() - own_before_s, cpu_s()
    found.machine = machine_between(before, psutil.cpu_times())
    if server_before_s is not None and server_after_s is not None:
        found.server_cpu_s = max(0.0, server_after_s - server_before_s)


async def _request(
    session: aiohttp.ClientSession, url: str, expected: Expectation, requests: int, found: Trace, began_s: float
) -> None:
    sent_s = time.monotonic()
    answer = await verify(session, url, expected, requests)
    answered_s = time.monotonic()
    ran_s = _as_told(answer, sent_s, answered_s) or _counted_back(answer, sent_s, answered_s)
    columns = found.requests
    columns.sent_s.append(round(sent_s - began_s, 6))
    columns.answered_s.append(round(answered_s - began_s, 6))
    columns.worker.append(answer.headers.get("x-worker", ""))
    columns.ran_s.append([(round(since - began_s, 6), round(to - began_s, 6), cpu) for since, to, cpu in ran_s])


def _as_told(answer: Answer, sent_s: float, answered_s: float) -> list[Stretch]:
    """The stretches in its header `X-Ran`; none if there is none or it can't be true."""
    try:
        zero_s, *stretches = answer.headers.get("x-ran", "").split()
        told = [
            (float(zero_s) + float(since) / 1000, float(zero_s) + float(to) / 1000, float(cpu) / 1000)
            for since, to, cpu in (stretch.split("/") for stretch in stretches)
        ]
    except ValueError:
        return []
    likely = all(
        sent_s - CLOCKS_AGREE_S <= since <= to <= answered_s + CLOCKS_AGREE_S and 0 <= cpu_s <= LONGEST_S
        for since, to, cpu_s in told
    )
    return list(told) if likely else []


def _counted_back(answer: Answer, sent_s: float, answered_s: float) -> list[Stretch]:
    """From `Server-Timing`, as if the answer came at once when the task had ended; none if there is no such header."""
    task = re.search(r"\btask\s*;\s*dur=(\d{1,9}(?:\.\d+)?)", answer.headers.get("server-timing", ""), re.ASCII)
    return [(max(sent_s, answered_s - float(task[1]) / 1000), answered_s, None)] if task else []
