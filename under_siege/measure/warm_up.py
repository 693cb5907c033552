"""Before the load, wait until the server is ready, verify its response, and warm up all of its processes."""

import asyncio
import re
from collections.abc import Collection
from urllib.parse import urlsplit

import aiohttp

from common.options import MOST_WORKERS
from common.workers import usable_cpus
from under_siege.load.http_client import HttpResponse, fetch, fetch_job
from under_siege.measure.server import Server
from under_siege.measure.tool_request_replay import ReplayedRequest
from under_siege.record.record import CaseFailedError, Record
from under_siege.suite.expectation import Expectation

BATCHES = 10
LONG_S = 1.0
MOST_VERIFIED = 20  # maximum number of requests of a mix to verify before the load; checks verify the others


async def warm_up(server: Server, session: aiohttp.ClientSession, expected: Expectation, record: Record) -> set[str]:
    """Wait for the server, verify its response, and send requests until each of its worker processes has handled one.

    Returns:
        The ids of the processes that answered, or an empty set if the server doesn't send `X-Worker`.
    """
    pong = await server.while_alive(server.ready(session))
    record.ready_s = asked_s = server.age_s()
    count = min(MOST_VERIFIED, len(expected.mix.requests)) if expected.mix else 1
    for _ in range(count):
        answer = await server.while_alive(verify(session, server.load_url, expected, record.users))
    record.idle_answer_s = (server.age_s() - asked_s) / count
    record.sets_cookies = "set-cookie" in answer.headers
    if "transfer-encoding" in answer.headers:
        record.answer_bytes = -1  # any size is correct, because siege also counts the framing of chunks
    workers = _workers_told(pong)
    wanted, seen = workers or record.workers or usable_cpus(), {answer.headers.get("x-worker")}
    few = min(wanted, usable_cpus())
    for batch in range(0 if _is_the_server(server, answer) else BATCHES):
        if len(seen) >= wanted:
            break
        # Send twice as many requests as workers, because a pool starts a worker only if none is idle. Send fewer in the
        # first batch and to threads, because a batch for all threads would hold the GIL for seconds.
        at_once = 2 * (wanted if batch and not _are_threads(seen) else few)
        before, began_s = set(seen), server.age_s()
        requests = [verify(session, server.load_url, expected, at_once) for _ in range(at_once)]
        answers = await server.while_alive(asyncio.gather(*requests))
        seen |= {answer.headers.get("x-worker") for answer in answers}
        if None in seen:
            break  # the server doesn't report its workers
        if _are_threads(seen) and _processes(seen) == _processes(before):
            break  # threads of one process share imported modules
        if seen == before and server.age_s() - began_s > LONG_S:
            break  # no new workers answer, although more are expected
    record.warm_s = server.age_s()
    record.workers = workers
    return _processes(seen)


def _is_the_server(server: Server, answer: HttpResponse) -> bool:
    """Return whether the started process performed the task itself; if so, no other process needs a warm-up."""
    process, _, thread = answer.headers.get("x-worker", "").partition("/")
    return process == str(server.pid) and not thread.startswith("Interpreter")  # sub-interpreters share no modules


def _processes(workers: Collection[str | None]) -> set[str]:
    """Return the process ids of workers such as `4711/MainThread`."""
    return {worker.partition("/")[0] for worker in workers if worker}


def _are_threads(workers: Collection[str | None]) -> bool:
    """Return whether several workers are in the same process."""
    return len(workers) > len(_processes(workers))


def _workers_told(pong: HttpResponse | None) -> int | None:
    """Return the reported number of workers, or None if it is missing or invalid."""
    workers = re.fullmatch(r"[0-9]{1,4}", pong.headers.get("x-workers", "") if pong else "")
    return int(workers[0]) if workers and 1 <= int(workers[0]) <= MOST_WORKERS else None


async def verify(
    session: aiohttp.ClientSession, url: str, expected: Expectation, users: int, replay: ReplayedRequest | None = None
) -> HttpResponse:
    """Send the load's request and return the verified response; with `replay`, send the same bytes as the load tool.

    Raises:
        CaseFailedError: the response is wrong or missing.
    """
    url, expected = expected.for_request(url)
    limits = expected.timeout_s(users), len(expected.answer)
    method = "POST" if expected.of_a_job else expected.request.method
    try:
        if replay is not None:
            answer = await replay.ask(url, *limits, expected.number)
        else:
            answer = await (fetch_job if expected.of_a_job else fetch)(session, url, *limits, expected.request)
    except aiohttp.ClientConnectorError as error:
        raise CaseFailedError("refused", f"{method} {url} was refused: {error.strerror}") from None
    if problem := expected.problem(answer):
        code = "wrong_answer" if answer.status == expected.status else "error_answer"
        path = urlsplit(url)._replace(scheme="", netloc="").geturl()
        like = f", sent as {replay.tool} sends it," if replay else ""
        raise CaseFailedError(code, f"{method} {path}{like} returned {problem}")
    return answer


async def last_pong(session: aiohttp.ClientSession, server: Server, timeout_s: float) -> HttpResponse | None:
    """Send a ping after the siege; return its response, or None if there is no ping or the ping gets no response."""
    if server.ping is None:
        return None
    try:
        return await fetch(session, server.url + server.ping.path, timeout_s, request=server.ping.request)
    except (aiohttp.ClientConnectorError, CaseFailedError):
        return None
