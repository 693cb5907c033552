"""The run: every case of every round, one after the other, each one recorded whatever becomes of it."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from datetime import UTC, datetime
from typing import Any, Protocol

import aiohttp
import psutil

from common.cpus import usable_cpus
from common.harness.beside.checker import Checker, interval_s
from common.harness.beside.machine import machine_between, watching_machine
from common.harness.beside.metronome import Metronome, metronome
from common.harness.beside.probe import probing
from common.harness.beside.sampler import sampling
from common.harness.beside.solo import Soloist, soloist
from common.harness.ceiling import compute_bare
from common.harness.client import Answer, client, get
from common.harness.driver import besiege
from common.harness.failures import CaseFailedError
from common.harness.length import Length, in_words, run_length_s, too_short_for
from common.harness.plan import NO_SERVER, Case, Plan
from common.harness.ready.expectation import Expectation, try_task
from common.harness.ready.interpreter import Interpreter
from common.harness.server import Server, running
from common.load.siege import Siege
from common.model.record import Failure, Record
from common.serving.options import MOST_WORKERS
from common.task import one_line

WARM_UP_BATCHES = 10

Expectations = dict[tuple[str, Interpreter], Expectation]


class Watcher(Protocol):
    """Who is told how the run goes on."""

    def warn(self, message: str) -> None:
        """Something will make the result worse than it could be."""

    def say(self, message: str) -> None:
        """Something that is good to know."""

    def case_begins(self, what: str, time_s: float) -> None:
        """A server is about to be started, and will be under siege for so long."""

    def answer_came(self) -> None:
        """Siege got an answer."""

    def case_ends(self) -> None:
        """All is measured and the server is gone."""


async def try_tasks(plan: Plan) -> Expectations:
    """What each task answers under each interpreter; raises BadInputError, before any server is started."""
    pairs = dict.fromkeys((case.task, case.python) for case in plan.cases)
    return {(task, python): await try_task(task, python) for task, python in pairs}


def say_how_long(plan: Plan, expectations: Expectations, watcher: Watcher) -> None:
    """Says beforehand how long the run will take, and which tasks take so long that its sieges are too short."""
    for case, least_s in too_short_for(plan, expectations):
        watcher.warn(
            f"--time {plan.time_s:g}s is short for {case.task} with {case.users} users: "
            f"take --time auto, or {least_s:.0f}s or more"
        )
    least_s, most_s = run_length_s(plan, usable_cpus(), expectations)
    watcher.say(f"{plan.turns()} sieges take {in_words(least_s, most_s)}")


async def run(
    plan: Plan,
    siege: Siege,
    expectations: Expectations,
    watcher: Watcher,
    save: Callable[[Record], None],
    still_wanted: Callable[[list[Case]], list[Case]],
) -> None:
    """Measures every case of every round, as long as it is wanted, and saves each record as soon as it is complete."""
    async with contextlib.AsyncExitStack() as stack:
        ticking = await stack.enter_async_context(metronome())
        soloists = {
            key: await stack.enter_async_context(soloist(*key, expected.patience_s(users=1)))
            for key, expected in expectations.items()
        }
        for round_, cases in enumerate(plan.in_order(), 1):
            for case in still_wanted(cases):
                expected = expectations[case.task, case.python]
                length = Length(plan.time_s, case.users, expected)
                record = new_record(case, length.end_s, round_)
                watcher.case_begins(f"round {round_}  {record.server}", length.end_s)
                async with beside_the_machine(record, ticking, soloists[case.task, case.python]):
                    await measure(case, siege, expected, length, record, watcher)
                save(record)
                watcher.case_ends()


@contextlib.asynccontextmanager
async def beside_the_machine(record: Record, ticking: Metronome, alone: Soloist) -> AsyncIterator[None]:
    """What the machine could do at that moment: the metronome, and the task alone before and after the body."""
    began_s = time.monotonic()
    async with ticking.beside(record):
        await alone.perform(record)
        yield
        await alone.perform(record)
    zero_s = began_s if record.siege_began_s is None else record.siege_began_s
    for column in (record.beats.at_s, record.cpu_times.at_s, record.alone_at_s):
        column[:] = [round(at_s - zero_s, 4) for at_s in column]


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


async def measure(
    case: Case, siege: Siege, expected: Expectation, length: Length, record: Record, watcher: Watcher
) -> None:
    """Measures one case once. Whatever goes wrong with the server is a failure in the record."""
    began_s = time.monotonic()
    record.answer_bytes = len(expected.answer)
    try:
        if case.strategy == NO_SERVER:
            await compute_bare(case, expected, record, length, watcher.answer_came)
        else:
            await _measure_server(case, siege, expected, length, record, watcher)
    except CaseFailedError as failed:
        record.failure = Failure(failed.code, str(failed))
    except Exception as error:  # a mistake of this program must not cost the other cases
        record.failure = Failure("bench_error", f"the bench itself failed, please report it: {one_line(error)}")
    record.time_s = length.end_s
    record.case_s = time.monotonic() - began_s


async def _measure_server(
    case: Case, siege: Siege, expected: Expectation, length: Length, record: Record, watcher: Watcher
) -> None:
    machine_before = psutil.cpu_times()
    async with client() as session, running(case, record) as server:
        await warm_up(server, session, case, expected, record)
        record.machine_before = machine_between(machine_before, psutil.cpu_times())
        await _under_siege(server, session, siege, expected, length, record, watcher)


async def warm_up(
    server: Server, session: aiohttp.ClientSession, case: Case, expected: Expectation, record: Record
) -> None:
    """Waits for the server, checks its answer, and asks until each worker has worked."""
    pong = await server.while_alive(server.ready(session))
    record.ready_s = server.age_s()
    asked_s = time.monotonic()
    answer = await server.while_alive(verify(session, server.url, expected, case.users))
    record.idle_answer_s = time.monotonic() - asked_s
    workers = _workers_told(pong)
    wanted, seen = workers or case.workers or usable_cpus(), {answer.headers.get("x-worker")}
    for _ in range(WARM_UP_BATCHES):
        if len(seen) >= wanted:
            break
        # Twice as many at once as there are workers: a pool starts a worker only if none is idle.
        at_once = 2 * wanted
        batch = [verify(session, server.url, expected, at_once) for _ in range(at_once)]
        answers = await server.while_alive(_all(batch))
        seen |= {answer.headers.get("x-worker") for answer in answers}
    record.warm_s = server.age_s()
    record.workers = workers


def _workers_told(pong: Answer) -> int | None:
    """How many workers the server says it has; None if that can't be."""
    told = re.fullmatch(r"[0-9]{1,4}", pong.headers.get("x-workers", ""))
    return int(told[0]) if told and 1 <= int(told[0]) <= MOST_WORKERS else None


async def _all(batch: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    return list(await asyncio.gather(*batch))


async def _under_siege(
    server: Server,
    session: aiohttp.ClientSession,
    siege: Siege,
    expected: Expectation,
    length: Length,
    record: Record,
    watcher: Watcher,
) -> None:
    """Siege, pings, checks and samples at the same time."""
    record.siege_began_s = began_s = time.monotonic()
    checker = Checker(lambda: verify(session, server.url, expected, record.users), record.checks, began_s)
    async with (
        probing(session, server.url, expected.patience_s(record.users), record.pings, began_s),
        checker.checking(interval_s(expected.task_s), lambda: length.end_s),
        sampling(server.pid, record, began_s),
        watching_machine(record),
    ):
        await server.while_alive(besiege(siege, f"{server.url}/", record, began_s, length, watcher.answer_came))
    # The last answer comes when the server has done what siege left in its line.
    await server.while_alive(checker.check())
    pong = await server.while_alive(_last_pong(session, server.url, expected.patience_s(record.users)))
    if record.checks.code[-1] or pong is None:
        await server.must_live()
    record.gil = {"on": True, "off": False}.get(pong.headers.get("x-gil", "")) if pong else None


async def _last_pong(session: aiohttp.ClientSession, url: str, patience_s: float) -> Answer | None:
    """What is answered to a ping after the siege; None if nothing, which costs the server no figure if it lives."""
    try:
        return await get(session, f"{url}/ping", patience_s)
    except (aiohttp.ClientConnectorError, CaseFailedError):
        return None


async def verify(session: aiohttp.ClientSession, url: str, expected: Expectation, users: int) -> Answer:
    """The answer of `/`.

    Raises:
        CaseFailedError: it isn't the right one, or there is none.
    """
    try:
        answer = await get(session, f"{url}/", expected.patience_s(users), len(expected.answer))
    except aiohttp.ClientConnectorError as error:
        raise CaseFailedError("refused", f"GET {url}/ was refused: {error.strerror}") from None
    if answer.status != 200 or answer.body != expected.answer:
        right = Answer(200, expected.answer, {})
        code = "wrong_answer" if answer.status == 200 else "error_answer"
        raise CaseFailedError(code, f"GET / gives {answer.described()} instead of {right.described()}")
    return answer
