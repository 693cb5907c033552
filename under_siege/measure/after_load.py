"""Wait until a server is idle after the load, and note the processes that it starts."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection

import aiohttp

from under_siege.load.body_rule import as_json, keys_of, values_at
from under_siege.load.http_client import fetch
from under_siege.load.request import Backlog
from under_siege.record.record import CaseFailedError, Drain, Record

LOOK_S = 0.2


SHORT_LOOK_S = 0.05  # polling interval for new processes, which may be short-lived


BUSY_CPUS = 0.2  # an idle server uses fewer CPUs than this, on average


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


def _cpus(before_s: float | None, after_s: float | None, took_s: float) -> float:
    """Return the average number of CPUs in use between two readings of CPU time, or 0 if a reading is unknown."""
    return 0.0 if before_s is None or after_s is None else (after_s - before_s) / max(took_s, LOOK_S)
