"""Before the load, check that the server is ready, its answer is correct, and each of its processes has worked."""

import asyncio
import re
from collections.abc import Collection, Coroutine, Iterable
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from common.cpus import usable_cpus
from common.server_contract import MOST_WORKERS
from under_siege.errors import CaseFailedError
from under_siege.http_client import Answer, get, get_job
from under_siege.model.record import Record
from under_siege.run.request_replay import ReplayedRequest
from under_siege.run.server import Server
from under_siege.targets.expectation import Expectation

BATCHES = 10
LONG_S = 1.0


async def warm_up(server: Server, session: aiohttp.ClientSession, expected: Expectation, record: Record) -> set[str]:
    """Wait for the server, check its answer, and ask until each of its worker processes has worked.

    Returns:
        The ids of the processes that answered; empty if the server doesn't send `X-Worker`.
    """
    pong = await server.while_alive(server.ready(session))
    record.ready_s = server.age_s()
    asked_s = server.age_s()
    url = server.load_url
    answer = await server.while_alive(verify(session, url, expected, record.users))
    record.idle_answer_s = server.age_s() - asked_s
    workers = _workers_told(pong)
    wanted, seen = workers or record.workers or usable_cpus(), {answer.headers.get("x-worker")}
    few = min(wanted, usable_cpus())
    for number in range(0 if _is_the_server(server, answer) else BATCHES):
        if len(seen) >= wanted:
            break
        # Twice as many at once as there are workers: a pool starts a worker only if none is idle. But few at first,
        # and few of threads, where a batch for all would compute for seconds under the GIL.
        at_once = 2 * (wanted if number and not _are_threads(seen) else few)
        batch = [verify(session, url, expected, at_once) for _ in range(at_once)]
        before, began_s = set(seen), server.age_s()
        answers = await server.while_alive(_all(batch))
        seen |= {answer.headers.get("x-worker") for answer in answers}
        if None in seen:
            break  # it doesn't tell who has worked
        if _are_threads(seen) and _processes(seen) == _processes(before):
            break  # what one thread has loaded is there for all of its process
        if seen == before and server.age_s() - began_s > LONG_S:
            break  # whoever was at work for so long was all that there is: it has fewer workers than it says
    record.warm_s = server.age_s()
    record.workers = workers
    return _processes(seen)


def _is_the_server(server: Server, answer: Answer) -> bool:
    """Return whether the process that listens did the work: its threads share what is loaded."""
    process, _, thread = answer.headers.get("x-worker", "").partition("/")
    return process == str(server.pid) and not thread.startswith("Interpreter")  # which shares nothing with others


def _processes(workers: Iterable[str | None]) -> set[str]:
    """Return the process ids of workers such as `4711/MainThread`."""
    return {worker.partition("/")[0] for worker in workers if worker}


def _are_threads(workers: Collection[str | None]) -> bool:
    """Return whether some of them are in the same process."""
    return len(workers) > len(_processes(workers))


def _workers_told(pong: Answer) -> int | None:
    """Return how many workers the server says it has; None if that can't be true."""
    told = re.fullmatch(r"[0-9]{1,4}", pong.headers.get("x-workers", ""))
    return int(told[0]) if told and 1 <= int(told[0]) <= MOST_WORKERS else None


async def _all(batch: Iterable[Coroutine[Any, Any, Answer]]) -> list[Answer]:
    return list(await asyncio.gather(*batch))


async def verify(
    session: aiohttp.ClientSession, url: str, expected: Expectation, users: int, like: ReplayedRequest | None = None
) -> Answer:
    """Send the request of the load, in the form of the load tool if `like` is given; return the answer.

    Raises:
        CaseFailedError: it isn't the right one, or there is none.
    """
    url, expected = expected.for_request(url)
    method = "POST" if expected.of_a_job else "GET"
    if like is not None:
        answer = await like.ask(url, expected.patience_s(users), len(expected.answer))
        return _right(answer, url, expected, method, f", asked for as {like.tool} does,")
    try:
        ask = get_job if expected.of_a_job else get
        answer = await ask(session, url, expected.patience_s(users), len(expected.answer))
    except aiohttp.ClientConnectorError as error:
        raise CaseFailedError("refused", f"{method} {url} was refused: {error.strerror}") from None
    return _right(answer, url, expected, method)


def _right(answer: Answer, url: str, expected: Expectation, method: str, like: str = "") -> Answer:
    if problem := expected.problem(answer):
        code = "wrong_answer" if answer.status == expected.status else "error_answer"
        path = urlsplit(url)._replace(scheme="", netloc="").geturl()
        raise CaseFailedError(code, f"{method} {path}{like} gives {problem}")
    return answer


async def last_pong(session: aiohttp.ClientSession, server: Server, patience_s: float) -> Answer | None:
    """Return the answer to a ping after the siege; None if there is none, which is no failure if the server lives."""
    if server.ping is None:
        return None
    try:
        return await get(session, server.url + server.ping.path, patience_s)
    except (aiohttp.ClientConnectorError, CaseFailedError):
        return None
