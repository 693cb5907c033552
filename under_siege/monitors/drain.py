"""Watch how long a server stays busy after the load, with work for requests that it has answered already."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import aiohttp

from under_siege.http_client import fetch
from under_siege.model.body_rule import as_json, values_at
from under_siege.model.record import CaseFailedError, Drain, Record
from under_siege.model.suite import Backlog

LOOK_S = 0.2
BUSY_CPUS = 0.2  # an idle server uses less


async def pending(session: aiohttp.ClientSession, url: str, backlog: Backlog, patience_s: float) -> float:
    """Return how many jobs wait, as the server reports; raise CaseFailedError if it doesn't report a number."""
    answer = await fetch(session, url + backlog.path, patience_s)
    values = list(values_at(as_json(answer.body), backlog.json.split(".")))
    if len(values) != 1 or isinstance(values[0], bool) or not isinstance(values[0], int | float):
        raise CaseFailedError("no_backlog", f"{backlog.path} has no number at {backlog.json!r}: {answer.described()}")
    return float(values[0])


async def watch_drain(
    record: Record,
    cpu_s: Callable[[], float | None],
    jobs: Callable[[], Awaitable[float]] | None,
    backlog: float | None,
    limit_s: float,
) -> None:
    """Wait until the server is idle and, if it reports its jobs, has none left; then write the drain into the record.

    Args:
        cpu_s: returns the CPU time of the server; None if it is unknown.
        jobs: returns the number of jobs that wait; None if the server doesn't report it.
        backlog: how many jobs waited when the load ended.
        limit_s: how long to wait at most.
    """
    load_ended_s = (record.load_began_s or 0.0) + (record.load_s or 0.0)
    at_end_s = record.samples.cpu_s[-1] if record.samples.cpu_s else None
    now_s = time.monotonic()
    until_s, is_done, after_s = now_s + limit_s, False, cpu_s()
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
        round(busy_until_s - load_ended_s, 3), used_s, None if backlog is None else int(backlog), is_done
    )


def _cpus(before_s: float | None, after_s: float | None, took_s: float) -> float:
    """Return how many CPUs were used between two readings of the CPU time; 0 if one is unknown."""
    return 0.0 if before_s is None or after_s is None else (after_s - before_s) / max(took_s, LOOK_S)
