"""Trace servers: send simultaneous requests and pings, and record when each task ran, as its response reports."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import aiohttp
import psutil

from common.errors import one_line
from under_siege.host.machine_speed import machine_between
from under_siege.host.resource_usage import tree_usage
from under_siege.host.services import Services
from under_siege.load.http_client import HttpResponse, client
from under_siege.load.pings import probing
from under_siege.load.streams import StreamResponse
from under_siege.measure.case_run import CaseRun
from under_siege.measure.plan import Plan, ProgressListener, new_record
from under_siege.measure.server import Server, running
from under_siege.measure.session import Reporting, Session, run_session, traced_case
from under_siege.measure.warm_up import verify, warm_up
from under_siege.record.case import Case
from under_siege.record.record import CaseFailedError, Failure, Trace
from under_siege.record.requests import LONGEST_S
from under_siege.record.result import Result
from under_siege.suite.suite import SERVICES
from under_siege.trace.timeline import is_crowded

PING_INTERVAL_S = 0.025
PINGS_AROUND = 3  # number of baseline pings before the requests, and again after the last response
CLOCK_ACCURACY_S = 0.005  # tolerance for spans that begin before the request or end after the response

SpanList = list[tuple[float, float, float | None]]  # start, end and CPU time (None if unknown) of each span in seconds


def trace_servers(
    plan: Plan, requests: int, watcher: ProgressListener, command: Sequence[str]
) -> tuple[Result, int | None]:
    """Trace every strategy without a siege; return the unsaved result, and the signal that stopped the run, if any."""

    async def work(session: Session) -> None:
        await RequestTracer(session, requests).trace_remaining()

    return run_session(plan, Reporting(None, watcher, command), work)[:2]


class RequestTracer:
    """Trace each case only once for all numbers of users, either after one of its sieges or on a separate server."""

    def __init__(self, session: Session, requests: int) -> None:
        self._session = session
        self._plan = session.plan
        self._requests = requests
        self._traced: set[Case] = set()

    async def after_siege(self, case_run: CaseRun, server: Server) -> None:
        """Trace the warm server of a siege that has just ended; if the trace fails, `trace_remaining` retries it."""
        case, record = traced_case(case_run.case), case_run.record
        if record.is_ceiling or case in self._traced:
            return
        trace = await self._trace(case, partial(self._send_all, server, record.workers, None))
        if trace.failure is None:
            self._session.keep(trace)
            self._traced.add(case)

    async def trace_remaining(self) -> None:
        """Trace the cases that have no trace yet, and keep each trace once it is complete."""
        for case in dict.fromkeys(map(traced_case, self._plan.cases)):
            self._session.watcher.case_begins(f"trace  {case.server}", 0.0)
            if case not in self._traced:
                self._session.keep(await self._trace(case, self._start_and_send_all))
            self._session.watcher.case_ends()

    async def _trace(self, case: Case, send_all: Callable[[Trace], Awaitable[None]]) -> Trace:
        """Trace the case and record any failure; retry once if other programs left too few CPUs for parallel tasks."""
        for _ in range(2):
            trace = Trace(server=case.server, title=self._plan.targets[case.server].title, values=dict(case.values))
            try:
                await send_all(trace)
            except CaseFailedError as failed:
                trace.failure = Failure(failed.code, str(failed))
            except Exception as error:  # a bug in the bench must not discard the other traces
                trace.failure = Failure("bench_error", f"internal error, please report it: {one_line(error)}")
            if not is_crowded(trace):
                break
        return trace

    async def _start_and_send_all(self, trace: Trace) -> None:
        services = self._session.services
        record = new_record(self._plan, trace.case, 0.0, 1)  # only needed to start the server
        async with client() as http, running(self._plan, trace.case, record, services) as server:
            await warm_up(server, http, self._session.expected_of(trace.case), record)
            await self._send_all(server, record.workers, services, trace)

    async def _send_all(self, server: Server, workers: int | None, services: Services | None, trace: Trace) -> None:
        trace.workers = workers
        async with client(keep_alive=self._plan.load_of(trace.case).keep_alive) as session:
            await server.while_alive(self._send_with_pings(session, server, services, trace))

    async def _send_with_pings(
        self, session: aiohttp.ClientSession, server: Server, services: Services | None, trace: Trace
    ) -> None:
        zero_s, expected = time.monotonic(), self._session.expected_of(trace.case)
        timeout_s, columns = expected.timeout_s(self._requests), trace.requests

        async def send() -> None:
            sent_s = time.monotonic()
            answer = await verify(session, server, expected, self._requests)
            answered_s = time.monotonic()
            spans = reported_spans(answer, sent_s, answered_s) or assumed_span(answer, sent_s, answered_s)
            columns.sent_s.append(round(sent_s - zero_s, 6))
            columns.answered_s.append(round(answered_s - zero_s, 6))
            columns.worker.append(answer.headers.get("x-worker", ""))
            columns.ran_s.append([(round(start - zero_s, 6), round(end - zero_s, 6), cpu) for start, end, cpu in spans])
            if isinstance(answer, StreamResponse):
                columns.events_s.append([round(sent_s - zero_s + at_s, 6) for at_s in answer.at_s])

        async with probing(session, server.url, server.ping, timeout_s, trace.pings, zero_s, PING_INTERVAL_S):
            await asyncio.sleep((PINGS_AROUND - 0.5) * PING_INTERVAL_S)
            before, server_before_s = psutil.cpu_times(), self._cpu_s(server, trace.case, services)
            bench_before_s = time.process_time()
            await asyncio.gather(*(send() for _ in range(self._requests)))
            trace.bench_cpu_s = time.process_time() - bench_before_s
            server_after_s = self._cpu_s(server, trace.case, services)
            trace.machine = machine_between(before, psutil.cpu_times())
            if server_before_s is not None and server_after_s is not None:
                trace.server_cpu_s = max(0.0, server_after_s - server_before_s)
            await asyncio.sleep(PINGS_AROUND * PING_INTERVAL_S)

    def _cpu_s(self, server: Server, case: Case, services: Services | None) -> float | None:
        """Return the CPU time that the server and its services have used, or None if it is unknown."""
        usage = tree_usage(server.pid, memory=False)
        needs = [name for name in self._plan.targets[case.server].needs if name in SERVICES]
        if usage is None or (needs and services is None):
            return None
        return usage.cpu_s + ((services.cpu_s(needs) if services else None) or 0.0)


def reported_spans(answer: HttpResponse, sent_s: float, answered_s: float) -> SpanList:
    """Return the spans in the header `X-Ran`, or an empty list if they are missing, malformed or impossible."""
    try:
        zero_s, *texts = answer.headers.get("x-ran", "").split()
        spans: SpanList = []
        for text in texts:
            from_ms, to_ms, cpu_ms = map(float, text.split("/"))
            from_s = float(zero_s) + from_ms / 1000
            to_s = float(zero_s) + to_ms / 1000
            cpu_s = cpu_ms / 1000
            if not (sent_s - CLOCK_ACCURACY_S <= from_s <= to_s <= answered_s + CLOCK_ACCURACY_S):
                return []
            if not 0 <= cpu_s <= LONGEST_S:
                return []
            spans.append((from_s, to_s, cpu_s))
    except ValueError:
        return []
    return spans


def assumed_span(answer: HttpResponse, sent_s: float, answered_s: float) -> SpanList:
    """Return one span that ends with the response and has the `Server-Timing` duration, or `[]` without this header."""
    task = re.search(r"\btask\s*;\s*dur=(\d{1,9}(?:\.\d+)?)", answer.headers.get("server-timing", ""), re.ASCII)
    return [(max(sent_s, answered_s - float(task[1]) / 1000), answered_s, None)] if task else []
