"""Wait until a server is ready, and find the process that listens."""

import asyncio
import contextlib
import math
from dataclasses import replace

import aiohttp
import psutil

from under_siege.host.docker_run import group_of
from under_siege.host.managed_process import LOOK_S, processes
from under_siege.host.ports import listeners, must_be_its_own, where_it_listens
from under_siege.load.http_client import HttpResponse, fetch, must_accept_connections
from under_siege.load.request import MixedRequest
from under_siege.load.streams import fetch_stream
from under_siege.measure.remedies import Asked, Source, remedy
from under_siege.measure.server import Server
from under_siege.record.record import CaseFailedError

FINAL_SHARE = 0.1  # final share of the time limit in which failed requests don't replace earlier problems
RETRIED = (408, 425, 429)  # statuses after which a request may be repeated
REFUSED_S = 2.0  # a server that refuses the same request for this long will go on
LONGEST_TASK_S = 60.0


async def until_ready(server: Server, session: aiohttp.ClientSession) -> HttpResponse | None:
    """Wait until the server is ready; return the response to the ping or, without a ping, to the load's request.

    A request that must not be repeated, such as a POST, or that needs a setup, is not sent. The server then counts as
    ready once it is listening.

    Raises:
        CaseFailedError: there is no correct response in time, or another process answers.
    """
    path, seen = server.load_url.removeprefix(server.url) if server.ping is None else server.ping.path, ""
    refused_s = math.inf  # when the server first refused the request
    refusal: HttpResponse | None = None

    def is_right(answer: HttpResponse) -> bool:
        if server.ping is None:
            return answer.status == server.plan.suite.expect.status
        return server.ping.fits(answer.status, answer.body)

    while (left_s := server.limit_s - server.age_s()) > 0:
        try:
            answer = await _ready_answer(server, session, left_s)
            if answer is None or is_right(answer):
                await _follow_listener(server)
                return answer
            seen = f"{path} returned {answer.described()}"
            refusal = answer if 300 <= answer.status <= 500 and answer.status not in RETRIED else None
            refused_s = min(refused_s, server.age_s()) if refusal else math.inf
            if server.age_s() > refused_s + REFUSED_S:
                break
        except aiohttp.ClientConnectorDNSError as error:
            if server.started is None:
                raise CaseFailedError("not_ready", f"unknown host {error.host!r}") from None
        except (aiohttp.ClientConnectorError, ConnectionError):
            pass  # the server doesn't listen yet
        except CaseFailedError as failed:
            if failed.code in ("stranger", "no_stream"):
                raise
            if left_s > FINAL_SHARE * server.limit_s:
                seen = str(failed)
        await asyncio.sleep(LOOK_S)
    raise _not_ready(server, seen, refusal)


async def _ready_answer(server: Server, session: aiohttp.ClientSession, limit_s: float) -> HttpResponse | None:
    """Return the response that shows whether the server is ready, or None if only a connection was opened."""
    if server.ping is not None:
        return await fetch(session, server.url + server.ping.path, limit_s, b"", server.ping.request)
    load = server.plan.load
    if not load.setup and (load.request.may_be_repeated or load.posts_jobs):
        if load.stream:  # it may be endless
            first = replace(load.stream, most_events=1)
            url, request = server.user.filled(server.load_url, load.request)
            return await fetch_stream(session, url, limit_s, first, request)
        # Once the server listens, it may take as long as one task.
        return await server.user.send_load_request(session, max(limit_s, LONGEST_TASK_S))
    await must_accept_connections(server.url)
    return None


def _not_ready(server: Server, seen: str, refusal: HttpResponse | None) -> CaseFailedError:
    """Return the error for a server that did not get ready; `refusal` is the response with which it refuses."""
    if refusal is not None:
        return CaseFailedError(
            "refused_request", f"{seen}{remedy_for(server, refusal, is_ping=server.ping is not None)}"
        )
    where = where_it_listens(server.pid, server.port) if server.pid is not None else ""
    option = "--ready-within 60s" if server.plan.suite.application else "ready_within under [ping]"
    more = "" if where or server.output.known_cause() else f"; if it needs longer, use {option}"
    why = seen or f"nothing listens at {server.url}{where}"
    waited_s = max(server.limit_s, server.age_s())  # an accepted request may take longer than the limit
    return CaseFailedError("not_ready", f"not ready within {waited_s:.3g} s: {why}{more}")


def remedy_for(server: Server, answer: HttpResponse, one: MixedRequest | None = None, *, is_ping: bool = False) -> str:
    """Return what to do about a response with an unexpected status, as the end of a sentence.

    Args:
        one: the request of a mix.
        is_ping: whether it is the response to a ping.
    """
    suite, load = server.plan.suite, server.plan.load
    path, request = (one.path, one.request) if one else (server.load_url.removeprefix(server.url), load.request)
    if is_ping and server.ping is not None:
        path, request = server.ping.path, server.ping.request
    of_options = Source.APPLICATION if suite.application else Source.URL
    source = of_options if suite.is_from_options else Source.SUITE
    routes = suite.application.routes if suite.application else ()
    return remedy(answer, Asked(server.url, path, request, source, is_ping, bool(load.setup), routes))


async def _follow_listener(server: Server) -> None:
    """Find the process that listens if it is outside the process tree of the command: an orphan, such as a daemon.

    If the system does not report which process listens, its CPU time and memory are unknown. A port that a
    container publishes belongs to its command, whoever listens on it.

    Raises:
        CaseFailedError: a process that the command did not start listens.
    """
    if server.started is None or server.port is None:
        return
    if server.container:
        pid = await server.container.pid()
        server.process = next(iter(processes([pid] if pid else [])), None)
        server.listens_elsewhere, server.group = server.pid is None, group_of(server.pid) if server.pid else None
        return
    supervisor = server.started.supervisor
    try:
        is_own = bool(listeners(server.started.pid, server.port))
    except psutil.Error:  # the system does not tell
        is_own = True
    if is_own:
        must_be_its_own(server.started.pid, server.port, supervisor.pid)
        return
    adopted = []
    for orphan in supervisor.orphans():
        with contextlib.suppress(psutil.Error):
            adopted += [orphan] if listeners(orphan.pid, server.port) else []
    if not adopted:
        must_be_its_own(server.started.pid, server.port, supervisor.pid)
    server.process, server.listens_elsewhere = adopted[0] if adopted else None, not adopted
