"""The run: every case of every round, one after the other, each one recorded whatever becomes of it."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

import aiohttp
import psutil

from common.cpus import usable_cpus
from common.harness.client import Answer, client, get
from common.harness.driver import besiege
from common.harness.expectation import Expectation, try_task
from common.harness.failures import CaseFailedError
from common.harness.interpreter import Interpreter
from common.harness.plan import Case, Plan
from common.harness.probe import probing
from common.harness.sampler import sampling
from common.harness.server import Server, running
from common.harness.siege import Siege
from common.record import Failure, Record

ANSWER_LIMIT_S = 15.0  # for one answer of an idle server, on top of some times what the task takes alone
WARM_UP_BATCHES = 10

Expectations = dict[tuple[str, Interpreter], Expectation]


class Watcher(Protocol):
    """Who is told how the run goes on."""

    def case_begins(self, record: Record) -> None:
        """A server is about to be started."""

    def answer_came(self) -> None:
        """Siege got an answer."""

    def case_ends(self, record: Record) -> None:
        """The record is complete."""


async def try_tasks(plan: Plan) -> Expectations:
    """What each task answers under each interpreter; raises BadInputError, before any server is started."""
    pairs = dict.fromkeys((case.task, case.python) for case in plan.cases)
    return {(task, python): await try_task(task, python) for task, python in pairs}


async def run(
    plan: Plan, siege: Siege, expectations: Expectations, watcher: Watcher, save: Callable[[Record], None]
) -> None:
    """Measures every case of every round and saves each record as soon as it is complete."""
    for round_, case in plan.in_order():
        record = new_record(case, plan.time_s, round_)
        watcher.case_begins(record)
        await measure(case, siege, expectations[case.task, case.python], record, watcher)
        save(record)
        watcher.case_ends(record)


def new_record(case: Case, time_s: float, round_: int) -> Record:
    """An empty record for a case that is about to be measured."""
    return Record(
        server=case.strategy.stem,
        title=case.strategy.title,
        task=case.task,
        users=case.users,
        python=case.python.version,
        workers=case.workers,
        round=round_,
        time_s=time_s,
        began_at=datetime.now(UTC).isoformat(timespec="seconds"),
        load_average=psutil.getloadavg()[0],
    )


async def measure(case: Case, siege: Siege, expected: Expectation, record: Record, watcher: Watcher) -> None:
    """Measures one case once. Whatever goes wrong with the server is a failure in the record."""
    began_s = time.monotonic()
    record.answer_bytes = len(expected.answer)
    try:
        async with client() as session, running(case, record) as server:
            record.workers = await _warm_up(server, session, case, expected, record)
            await _under_siege(server, session, siege, record, watcher)
            await server.while_alive(verify(session, server.url, expected))
    except CaseFailedError as failed:
        record.failure = Failure(failed.code, str(failed))
    record.case_s = time.monotonic() - began_s


async def _warm_up(
    server: Server, session: aiohttp.ClientSession, case: Case, expected: Expectation, record: Record
) -> int | None:
    """Waits for the server, checks its answer, and asks until each worker has worked; how many there are."""
    pong = await server.while_alive(server.ready(session))
    record.ready_s = server.age_s()
    answer = await server.while_alive(verify(session, server.url, expected))
    told = pong.headers.get("x-workers", "")
    workers = int(told) if told.isdigit() else None
    wanted, seen = workers or case.workers or usable_cpus(), {answer.headers.get("x-worker")}
    for _ in range(WARM_UP_BATCHES):
        if len(seen) >= wanted:
            break
        # Twice as many at once as there are workers: a pool starts a worker only if none is idle.
        batch = [verify(session, server.url, expected) for _ in range(2 * wanted)]
        answers = await server.while_alive(_all(batch))
        seen |= {answer.headers.get("x-worker") for answer in answers}
    record.warm_s = server.age_s()
    return workers


async def _all(batch: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    return list(await asyncio.gather(*batch))


async def _under_siege(
    server: Server, session: aiohttp.ClientSession, siege: Siege, record: Record, watcher: Watcher
) -> None:
    """Siege, ping probe and sampler at the same time."""
    began_s, cpu_before_s = time.monotonic(), time.process_time()
    async with probing(session, server.url, record.pings, began_s):
        async with sampling(server.pid, record, began_s):
            load = besiege(siege, f"{server.url}/", record, began_s, lambda _: watcher.answer_came())
            await server.while_alive(load)
        record.bench_cpu_s = time.process_time() - cpu_before_s


async def verify(session: aiohttp.ClientSession, url: str, expected: Expectation) -> Answer:
    """The answer of `/`.

    Raises:
        CaseFailedError: it isn't the right one, or there is none.
    """
    answer = await get(session, f"{url}/", ANSWER_LIMIT_S + 10 * expected.task_s)
    if answer.status != 200 or answer.body != expected.answer:
        right = Answer(200, expected.answer, {})
        raise CaseFailedError("wrong_answer", f"GET / gives {answer.described()} instead of {right.described()}")
    return answer
