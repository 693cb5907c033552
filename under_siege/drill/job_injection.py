"""Inject faults while a server works on jobs that it has accepted, and poll for their results afterwards."""

import asyncio
import signal
import time
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from under_siege.drill.injection import NEVER, Need, kill_busiest, was_sent
from under_siege.drill.loaded_server import FaultContext
from under_siege.host.managed_process import until
from under_siege.measure.server_readiness import until_ready
from under_siege.record.record import CaseFailedError
from under_siege.record.requests import CORRECT, LOAD, WRONG

JOBS, AT_ONCE = 40, 8
JOB_CPU_S = 0.05
# Timeouts for the next result and for all results. They are long, because Celery reconnects after 2, 4, 6, … s.
NEXT_RESULT_LIMIT_S, ALL_RESULTS_LIMIT_S = 20.0, 40.0
GONE_S = 2.0  # the remaining jobs count as lost once the server has answered 404 for all of them for this long
LOOK_S = 0.1  # pause between two polls of a job; Retry-After headers are ignored
POST_LIMIT_S = 5.0
NEW_LIMIT_S = 5.0
DEATH_LIMIT_S = 5.0
_NOT_SUPPORTED = (404, 405, 501)
T = TypeVar("T")
_ANSWERED, _FAILED, _UNKNOWN, _LATER = "answered", "failed", "unknown", "later"


async def kill_a_worker_with_jobs(context: FaultContext) -> None:
    """Post jobs, send SIGKILL to the busiest worker process, and poll for the results."""
    if (jobs := await _post_all(context)) and await kill_busiest(context):
        await _poll_all(context, jobs)


async def kill_the_server_with_jobs(context: FaultContext) -> None:
    """Post jobs, kill the server, restart it with the same command, and poll for the results."""
    if not (jobs := await _post_all(context)):
        return
    if not was_sent(context, lambda: context.signal(signal.SIGKILL)):
        return
    await until(lambda: not context.server.alive(), DEATH_LIMIT_S)
    await context.server.stop()
    context.server.begin()
    await until_ready(context.server, context.session)
    await _poll_all(context, jobs)


async def _at_once(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run coroutines, at most AT_ONCE of them concurrently, and return their results in the order of `work`."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def limited(coroutine: Coroutine[Any, Any, T]) -> T:
        async with limit:
            return await coroutine

    return list(await asyncio.gather(*map(limited, work)))


async def _post_all(context: FaultContext) -> list[str]:
    """Post all jobs, and return the URLs of the accepted jobs."""
    context.set_task_cpu(JOB_CPU_S)
    context.began_s = time.monotonic()
    first = await _post(context)
    if context.incident.without:
        return []
    if first is None:
        raise CaseFailedError("no_job", "POST /jobs failed before the fault: expected 202 with a Location header")
    others = await _at_once(_post(context) for _ in range(JOBS - 1))
    jobs = [first, *filter(None, others)]
    context.incident.seen["accepted"] = len(jobs)
    return jobs


async def _post(context: FaultContext) -> str | None:
    """Post a job, and return its URL, or None if it was not accepted."""
    url = urljoin(context.server.url, "/jobs")
    answer = await context.users.ask(url, POST_LIMIT_S, "POST")
    if isinstance(answer, str):
        return None
    if answer.status in _NOT_SUPPORTED:
        context.incident.without = Need.JOBS
    job = urljoin(url, answer.headers.get("location", "nowhere:"))
    is_here = urlsplit(job)[:2] == urlsplit(url)[:2]  # polls must not go to another server
    return job if answer.status == 202 and is_here else None


async def _poll_all(context: FaultContext, jobs: list[str]) -> None:
    """Poll until every job has a result or no more results can be expected, then post a new job."""
    at_s = context.incident.fault_at_s
    requests = context.incident.requests
    seen = context.incident.seen
    assert at_s is not None
    states, last_s = dict.fromkeys(jobs, _LATER), context.now_s()
    unknown_since_s = time.monotonic()
    while waiting := [job for job in jobs if states[job] in (_LATER, _UNKNOWN)]:
        if context.now_s() > min(last_s + NEXT_RESULT_LIMIT_S, at_s + ALL_RESULTS_LIMIT_S):
            break
        answers = await _at_once(_poll(context, job) for job in waiting)
        states.update(zip(waiting, answers, strict=True))
        for answer in answers:
            if answer in (_ANSWERED, _FAILED):
                last_s = context.now_s()
                outcome = CORRECT if answer == _ANSWERED else WRONG
                requests.add(LOAD, sent_s=0.0, ended_s=last_s, outcome=outcome)
        if _LATER in answers:
            unknown_since_s = time.monotonic()
        elif time.monotonic() - unknown_since_s >= GONE_S:
            break
        await asyncio.sleep(LOOK_S)
    outcomes = list(states.values())
    seen["answered"], seen["failed"] = outcomes.count(_ANSWERED), outcomes.count(_FAILED)
    seen["lost"] = len(jobs) - seen["answered"]
    seen["last_s"] = max(0.0, max(requests.ended_s) - at_s) if requests.ended_s else NEVER
    context.incident.ended_s = context.now_s()
    seen["takes_new"] = float(await _takes_new(context))


async def _poll(context: FaultContext, job: str) -> str:
    answer = await context.users.ask(job, POST_LIMIT_S)
    if isinstance(answer, str):
        return _FAILED if answer == WRONG else _LATER
    if context.users.expected.fits(answer.status, answer.body):
        return _ANSWERED
    if answer.status in (202, 503):
        return _LATER
    return _UNKNOWN if answer.status == 404 else _FAILED


async def _takes_new(context: FaultContext) -> bool:
    """Post one more job, and return whether its result arrives in time."""
    deadline_s, job = time.monotonic() + NEW_LIMIT_S, None
    while time.monotonic() < deadline_s:
        job = job or await _post(context)
        if job is not None and await _poll(context, job) == _ANSWERED:
            return True
        await asyncio.sleep(LOOK_S)
    return False
