"""What becomes of jobs: some are posted, something goes wrong, and then all of them are asked for."""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urljoin

import aiohttp

from under_siege.errors import CaseFailedError
from under_siege.faults.fault import DEAD, HURT, NEVER, OK, Fault, count, seconds
from under_siege.faults.fault_context import FaultContext
from under_siege.faults.incident_metrics import Figures
from under_siege.faults.process_faults import kill_busiest
from under_siege.http_client import answer_of
from under_siege.processes.managed_process import until

JOBS, AT_ONCE = 40, 8
JOB_CPU_S = 0.05
PATIENCE_S, MOST_S = 6.0, 14.0  # for the next answer to come; for all of them, from the fault on
GONE_S = 2.0  # for so long a server that is there again has to know nothing of any job: then they are given up
LOOK_S = 0.1  # between two questions for the same job, and at the most as long as Retry-After says
POST_LIMIT_S, NEW_LIMIT_S, DEATH_LIMIT_S = 5.0, 5.0, 5.0
NO_JOBS = "it takes no jobs"
_NO_SUCH_THING = (404, 405, 501)
Inject = Callable[[FaultContext], Awaitable[None]]
_ANSWERED, _FAILED, _UNKNOWN, _LATER = "answered", "failed", "unknown", "later"


async def kill_a_worker(scene: FaultContext) -> None:
    """SIGKILL to the busiest process below the first one."""
    if not (posted := await _post_all(scene)):
        return
    if await kill_busiest(scene):
        await _ask_for_all(scene, posted)


async def kill_the_server(scene: FaultContext) -> None:
    """SIGKILL to the first process, which is started again with the same words."""
    if not (posted := await _post_all(scene)):
        return
    scene.fault_now()
    scene.signal(signal.SIGKILL)
    await until(lambda: not scene.server.alive(), DEATH_LIMIT_S)
    await scene.server.start_again()
    await scene.server.ready(scene.session)
    await _ask_for_all(scene, posted)


async def kill_the_broker(scene: FaultContext) -> None:
    """SIGKILL to the broker, which is started again."""
    assert scene.broker is not None
    if not (posted := await _post_all(scene)):
        return
    scene.fault_now()
    await scene.broker.kill_and_start()
    await _ask_for_all(scene, posted)


async def _post_all(scene: FaultContext) -> list[str]:
    """Where the answers of all that were accepted will be."""
    scene.set_task_cpu(JOB_CPU_S)
    scene.began_s = time.monotonic()
    first = await _post(scene)
    if first is None and not scene.incident.without:
        raise CaseFailedError(
            "no_job", "POST /jobs was not answered by 202 with a Location, when nothing had gone wrong"
        )
    if first is None:
        return []
    places, waiting = [first], iter(range(JOBS - 1))

    async def poster() -> None:
        for _ in waiting:
            if place := await _post(scene):
                places.append(place)

    await asyncio.gather(*(poster() for _ in range(AT_ONCE)))
    scene.incident.seen["accepted"] = len(places)
    return places


async def _post(scene: FaultContext) -> str | None:
    """Where its answer will be; None if it was not accepted."""
    url, limit = urljoin(scene.server.url, "/jobs"), aiohttp.ClientTimeout(total=POST_LIMIT_S)
    try:
        async with scene.session.post(url, timeout=limit, allow_redirects=False) as response:
            if response.status in _NO_SUCH_THING:
                scene.incident.without = NO_JOBS
            place = response.headers.get("Location")
            return urljoin(url, place) if response.status == 202 and place else None
    except (TimeoutError, aiohttp.ClientError, ValueError, OSError):
        return None


async def _ask_for_all(scene: FaultContext, places: list[str]) -> None:
    """Until each is answered, or nobody can hope any more; then whether a new one is."""
    at_s, requests, seen = scene.incident.fault_at_s, scene.incident.requests, scene.incident.seen
    assert at_s is not None
    told, news_s = dict.fromkeys(places, _LATER), scene.now_s()
    unknown_since_s = time.monotonic()
    while open_ := [one for one in places if told[one] in (_LATER, _UNKNOWN)]:
        if scene.now_s() > min(news_s + PATIENCE_S, at_s + MOST_S):
            break
        for place, answer in zip(open_, await _ask_each(scene, open_), strict=True):
            told[place] = answer
            if answer in (_ANSWERED, _FAILED):
                news_s = scene.now_s()
                requests.sent_s.append(0.0)
                requests.ended_s.append(round(news_s, 6))
                requests.outcome.append("" if answer == _ANSWERED else "wrong")
        if any(told[one] == _LATER for one in open_):
            unknown_since_s = time.monotonic()
        elif time.monotonic() - unknown_since_s >= GONE_S:
            break
        await asyncio.sleep(LOOK_S)
    answers = list(told.values())
    seen["answered"], seen["failed"] = answers.count(_ANSWERED), answers.count(_FAILED)
    seen["lost"] = len(places) - seen["answered"]
    seen["last_s"] = max(0.0, max(requests.ended_s) - at_s) if requests.ended_s else NEVER
    scene.incident.ended_s = scene.now_s()
    seen["takes_new"] = float(await _takes_new(scene))


async def _ask_each(scene: FaultContext, places: list[str]) -> list[str]:
    """Some at once."""
    answers, waiting = [_LATER] * len(places), iter(range(len(places)))

    async def asker() -> None:
        for number in waiting:
            answers[number] = await _ask(scene, places[number])

    await asyncio.gather(*(asker() for _ in range(AT_ONCE)))
    return answers


async def _ask(scene: FaultContext, place: str) -> str:
    expected, limit = scene.users.expected, aiohttp.ClientTimeout(total=POST_LIMIT_S)
    try:
        async with scene.session.get(place, timeout=limit, allow_redirects=False) as response:
            answer = await answer_of(response, len(expected.answer))
            if expected.fits(answer.status, answer.body):
                return _ANSWERED
            if answer.status in (202, 503):
                return _LATER
            return _UNKNOWN if answer.status == 404 else _FAILED
    except CaseFailedError:  # more than was expected
        return _FAILED
    except (TimeoutError, aiohttp.ClientError, ValueError, OSError):
        return _LATER


async def _takes_new(scene: FaultContext) -> bool:
    """Whether one that is posted after all that is answered."""
    deadline_s = time.monotonic() + NEW_LIMIT_S
    place = None
    while time.monotonic() < deadline_s:
        place = place or await _post(scene)
        if place is not None and await _ask(scene, place) == _ANSWERED:
            return True
        await asyncio.sleep(LOOK_S)
    return False


def _job_fault(name: str, description: str, heading: str, inject: Inject, option: str, **flags: Any) -> Fault:
    return Fault(
        name,
        description,
        heading,
        ("never answered", "last answer after"),
        inject,
        lambda figures: (f"{count(figures['lost'])} of {count(figures['accepted'])}", seconds(figures["last_s"])),
        _mark,
        option=option,
        is_once=True,
        needs_own_tasks=True,
        posts_jobs=True,
        **flags,
    )


def _mark(figures: Figures) -> str:
    """All accepted jobs have to be answered; losing some is less severe than accepting no more."""
    return DEAD if not figures["takes_new"] else HURT if figures["lost"] else OK


JOB_FAULTS = (
    _job_fault(
        "jobs_worker",
        "40 jobs are posted, then SIGKILL to one process that works",
        "jobs, worker killed",
        kill_a_worker,
        "worker",
    ),
    _job_fault(
        "jobs_server",
        "40 jobs are posted, then SIGKILL to the server, which is started again",
        "jobs, server killed",
        kill_the_server,
        "server",
        has_own_server=True,
    ),
    _job_fault(
        "jobs_server_apart",
        "the same with a broker that is not the server's own",
        "jobs, server killed, broker apart",
        kill_the_server,
        "server",
        has_own_server=True,
        broker_on_disk=False,
    ),
    _job_fault(
        "jobs_broker",
        "40 jobs are posted, then SIGKILL to a broker without a disk, which is started again",
        "jobs, broker killed",
        kill_the_broker,
        "broker",
        has_own_server=True,
        broker_on_disk=False,
    ),
    _job_fault(
        "jobs_broker_disk",
        "the same with a broker that keeps all on disk",
        "jobs, broker with disk killed",
        kill_the_broker,
        "broker",
        has_own_server=True,
        broker_on_disk=True,
    ),
)
