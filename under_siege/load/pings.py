"""Send pings and response checks during the load; after the load, wait until the server is idle.

Pings and checks are open loops: each request is sent when it is due, even if earlier requests are still unanswered. The
latency of a ping is measured from its due time. A closed loop would send fewer requests to a server that stalls, which
would hide the stall (coordinated omission).
"""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import aiohttp
import psutil

from under_siege.load.body_rule import as_json, keys_of, values_at
from under_siege.load.http_client import fetch
from under_siege.load.request import Backlog, Ping
from under_siege.record.record import CaseFailedError, Drain, Record
from under_siege.record.requests import CORRECT, LATE, LOST, OPEN, WRONG, Outcome, Requests, Sender

# In the middle of a pause between frequent pings, a single one is sent, as health checks of load balancers are.
QUIET_S = (0.75, 1.25)
ALONE_AT_S = 1.0
_Work = Coroutine[Any, Any, None]

LOOK_S = 0.2
SHORT_LOOK_S = 0.05  # polling interval for new processes, which may be short-lived
BUSY_CPUS = 0.2  # an idle server uses fewer CPUs than this, on average


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def in_background(work: _Work) -> AsyncIterator[None]:
    """Run the work while the context is active, then cancel it."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        await cancel([task])


@contextlib.asynccontextmanager
async def _open_loop(
    send: Callable[[float], _Work], times_s: Iterable[float], timeout_s: float | None
) -> AsyncIterator[None]:
    """While the context is active, start `send(due_s)` at each of the times; then wait for unfinished calls."""
    pending: set[asyncio.Task[None]] = set()

    async def send_when_due() -> None:
        for due_s in times_s:
            await asyncio.sleep(due_s - time.monotonic())
            task = asyncio.create_task(send(due_s))
            pending.add(task)
            task.add_done_callback(pending.discard)

    try:
        async with in_background(send_when_due()):
            yield
        if pending:
            await asyncio.wait(pending, timeout=timeout_s)
    finally:
        await cancel(pending)


def probing(
    session: aiohttp.ClientSession,
    url: str,
    ping: Ping | None,
    timeout_s: float,
    requests: Requests,
    began_s: float,
    interval_s: float | None = None,
    first_s: float = 0.0,
    quiet_s: tuple[float, float] = (0.0, 0.0),
    *,
    is_cut: bool = False,
) -> AbstractAsyncContextManager[None]:
    """While the context is active, send pings, the first at `began_s + first_s`; then wait for pending responses.

    Args:
        interval_s: None for that of the ping.
        quiet_s: seconds after `began_s` between which no ping is sent.
        is_cut: whether pings without a response are `open` at the end, instead of waiting for their responses.
    """
    if ping is None:
        return contextlib.nullcontext()
    every_s = interval_s or ping.every_s
    after_s = (first_s + number * every_s for number in itertools.count())
    times_s = (began_s + at_s for at_s in after_s if not (ping.is_frequent and quiet_s[0] < at_s < quiet_s[1]))
    send = partial(_ping, session, url, ping, requests, began_s, "ping", is_cut=is_cut)
    return _open_loop(send, times_s, 0.0 if is_cut else timeout_s)


@contextlib.asynccontextmanager
async def probing_alone(
    session: aiohttp.ClientSession,
    url: str,
    ping: Ping | None,
    timeout_s: float,
    requests: Requests,
    began_s: float,
    *,
    is_cut: bool = False,
) -> AsyncIterator[None]:
    """While the context is active, send one ping at ALONE_AT_S; then wait for the response, unless `is_cut`."""
    if ping is None or not ping.is_frequent:
        yield
        return
    send = partial(_ping, session, url, ping, requests, began_s, "lone_ping", is_cut=is_cut)
    async with _open_loop(send, [began_s + ALONE_AT_S], 0.0 if is_cut else timeout_s):
        yield


async def _ping(
    session: aiohttp.ClientSession,
    url: str,
    ping: Ping,
    requests: Requests,
    began_s: float,
    sender: Sender,
    due_s: float,
    *,
    is_cut: bool,
) -> None:
    sent_s, status = time.monotonic(), 0
    outcome, problem = (OPEN, "") if is_cut else (LATE, "not answered")
    try:
        answer = await fetch(session, url + ping.path, request=ping.request)
        status, is_right = answer.status, ping.fits(answer.status, answer.body)
        outcome, problem = (CORRECT, "") if is_right else (WRONG, answer.described())
    except aiohttp.ClientConnectorError as error:
        outcome, problem = LOST, f"not connected: {error.strerror}"
    except CaseFailedError as error:
        outcome, problem = LOST, str(error)
    finally:
        requests.add(
            sender,
            due_s=due_s - began_s,
            sent_s=sent_s - began_s,
            ended_s=time.monotonic() - began_s,
            status=status,
            outcome=outcome,
            problem=problem,
        )


def check_interval_s(task_s: float) -> float:
    """Return the check interval: 1 s, or more for long tasks, so that checks use at most 10 % of one worker."""
    return max(1.0, 10 * task_s)


class AnswerCheck:
    """Request the task and verify the responses, because siege only counts their bytes.

    In a saturated closed loop, the rate includes these requests, because they are also work for the server. The first
    is sent when the users start, so that the queue doesn't grow in the middle of the measurement. If `is_cut`, checks
    without a response are `open` at the end of the load.
    """

    def __init__(
        self,
        verify: Callable[[int], Awaitable[object]],
        requests: Requests,
        began_s: float,
        *,
        is_cut: bool = False,
    ) -> None:
        self._verify = verify
        self._requests = requests
        self._began_s = began_s
        self._is_cut = is_cut

    async def check(self, in_a_row: int = 1) -> None:
        """Send `in_a_row` requests on one connection, verify the last response, and record the outcome."""
        sent_s = time.monotonic() - self._began_s
        outcome: Outcome = OPEN if self._is_cut else LATE
        problem = "" if self._is_cut else "the response check was not answered"
        try:
            await self._verify(in_a_row)
            outcome, problem = "correct", ""
        except CaseFailedError as failed:
            outcome, problem = "wrong" if failed.code == "wrong_answer" else "lost", str(failed)
        finally:
            ended_s = time.monotonic() - self._began_s
            self._requests.add("check", sent_s=sent_s, ended_s=ended_s, outcome=outcome, problem=problem)

    def checking(self, every_s: float, end_s: Callable[[], float]) -> AbstractAsyncContextManager[None]:
        """Send checks at a fixed rate until `end_s()`, which may change; then wait for pending responses."""
        after_s = itertools.takewhile(lambda at_s: at_s < end_s(), (number * every_s for number in itertools.count()))
        times_s = (self._began_s + at_s for at_s in after_s)
        return _open_loop(lambda _: self.check(), times_s, timeout_s=0.0 if self._is_cut else None)


async def pending(session: aiohttp.ClientSession, url: str, backlog: Backlog, timeout_s: float) -> float:
    """Return the number of queued jobs that the server reports; raise CaseFailedError if it reports no number."""
    answer = await fetch(session, url + backlog.path, timeout_s)
    values = list(values_at(as_json(answer.body), keys_of(backlog.json)))
    if len(values) != 1 or isinstance(values[0], bool) or not isinstance(values[0], int | float):
        raise CaseFailedError("no_backlog", f"{backlog.path} has no number at {backlog.json!r}: {answer.described()}")
    return float(values[0])


async def watch_drain(
    record: Record,
    cpu_s: Callable[[], float | None],
    jobs: Callable[[], Awaitable[float]] | None,
    backlog: float | None,
    limit_s: float,
    started: Collection[int] = (),
) -> None:
    """Wait until the server is idle or, if it reports its queued jobs, has none left; then record the wait.

    Args:
        cpu_s: a function that returns the CPU time of the server, or None if it is unknown.
        jobs: None if the server doesn't report its queued jobs; otherwise, a function that returns their number.
        backlog: number of queued jobs at the end of the load.
        limit_s: maximum time to wait, in seconds.
        started: ids of the processes that the server has started since the end of the load; may grow during the wait.
    """
    load_ended_s = (record.load_began_s or 0.0) + (record.load_s or 0.0)
    at_end_s = record.samples.cpu_s[-1] if record.samples.cpu_s else None
    now_s = time.monotonic()
    until_s = now_s + limit_s
    is_done = False
    after_s = cpu_s()
    busy_until_s = now_s if _cpus(at_end_s, after_s, now_s - load_ended_s) >= BUSY_CPUS else load_ended_s
    while not is_done and time.monotonic() < until_s:
        began_s = time.monotonic()
        await asyncio.sleep(LOOK_S)
        before_s, after_s = after_s, cpu_s()
        left = await jobs() if jobs else None
        is_done = not left if jobs else _cpus(before_s, after_s, time.monotonic() - began_s) < BUSY_CPUS
        busy_until_s = busy_until_s if is_done else time.monotonic()
    used_s = None if after_s is None or at_end_s is None else max(0.0, round(after_s - at_end_s, 4))
    record.drain = Drain(
        round(busy_until_s - load_ended_s, 3),
        used_s,
        None if backlog is None else int(backlog),
        is_done,
        len(started),
    )


async def watch_new_processes(record: Record, children: Callable[[], set[int]], started: set[int]) -> None:
    """Add to `started` the processes that a server starts after the load; `children` returns its current processes."""
    before = children()
    while True:
        now = children()
        if record.load_s is None:
            before = now
        else:
            started |= now - before
        await asyncio.sleep(LOOK_S if record.load_s is None else SHORT_LOOK_S)


@contextlib.asynccontextmanager
async def counting_replaced_workers(
    record: Record, root: int | None, workers: Collection[int], children: Callable[[], set[int]]
) -> AsyncIterator[None]:
    """Count the workers that end while the context is active and are replaced by another child of the same parent.

    Args:
        root: id of the server's first process.
        workers: ids of the processes that listen. A child of a worker is no worker, but may be a command that it runs.
        children: returns the ids of all current descendants of the first process.
    """
    masters = {_parent(pid) for pid in workers} & {root, *children()}
    seen = children()
    started = set[int]()
    ended = 0

    def look() -> None:
        nonlocal seen, ended
        now = children()
        ended += sum(pid in workers or pid in started for pid in seen - now)
        started.update(pid for pid in now - seen if _parent(pid) in masters)
        seen = now
        record.workers_replaced = min(ended, len(started))

    async def look_repeatedly() -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            look()

    try:
        async with in_background(look_repeatedly()) if masters else contextlib.nullcontext():
            yield
    finally:
        if masters:
            look()


def _parent(pid: int) -> int | None:
    try:
        return psutil.Process(pid).ppid()
    except psutil.Error:
        return None


def _cpus(before_s: float | None, after_s: float | None, took_s: float) -> float:
    """Return the average number of CPUs in use between two readings of CPU time, or 0 if a reading is unknown."""
    return 0.0 if before_s is None or after_s is None else (after_s - before_s) / max(took_s, LOOK_S)
