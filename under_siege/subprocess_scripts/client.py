"""Load a server: users in a closed loop, who may pause, or requests at given times. Every load of the bench's own.

The script reports `"ready"`. If users send requests before the load, it reads a `SetupOrder`, sends them, and reports
`{"setup": REASON}`, whose reason is empty unless a request failed. Then it reads an `Order`. Both are lines of JSON.

It reports the fields of a `ClientRow` for each request, in the order in which they end. Only the first problems have a
text. Before the row of a stream, it reports the microseconds from its request to its first event that counts, and
between these events, in one or more lines:
    {"user": USER, "waits_us": [FIRST, GAP, GAP, ...]}
After SIGTERM, when stdin is closed, or when `count` requests have ended, it cuts off the other requests, reports their
rows with the outcome `open`, and then an object with:
    reconnected     how many requests were repeated, because the server had just closed an idle connection
    stalls_s        the longest times in seconds for which the script could not run, the longest first
"""

import asyncio
import contextlib
import gc
import heapq
import itertools
import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from common.errors import one_line
from under_siege.load.body_rule import ANY
from under_siege.load.client import SETUP, Order, SetupOrder
from under_siege.load.content_encoding import decoded
from under_siege.load.fresh_values import names_in_request, numbers
from under_siege.load.http_client import client, open_request, read_response
from under_siege.load.jobs import job_result
from under_siege.load.request import Request, RightAnswer
from under_siege.load.simulated_user import ARRIVING, SimulatedUser
from under_siege.load.streams import BROKEN, EventCheck, error_instead_of, read_events
from under_siege.record.record import CaseFailedError
from under_siege.record.requests import LARGEST_INDEX, outcome_of
from under_siege.secrets import masked

REPORT_INTERVAL_S = 0.05
NICENESS = -10  # set if permitted; a precise load needs little CPU time, but must send requests on time
MOST_KEPT = 1_000_000  # number of bytes of a body to keep if bodies are not compared; an error is shorter
MOST_PROBLEMS, LONGEST_PROBLEM = 20, 300
EVENTS_PER_LINE = 1000
LOOK_S = 0.005  # interval at which the script checks whether it keeps up
MOST_STALLS, LEAST_STALL_S = 500, 0.0005
REPEATABLE = ("GET", "HEAD")
FIRST_ERROR = 300  # the lowest status of a response that is no stream
AT_ONCE = 8  # number of users that send the requests of their setup at the same time


class Load:
    """The requests of one load, and the lines to print."""

    def __init__(self, order: Order, people: Sequence[SimulatedUser] = ()) -> None:
        """Prepare the load of an order; `people` are its users if they have sent the requests of their setup."""
        numbers.digit = order.digit
        self._given = order
        self._people = people or [SimulatedUser(number + 1) for number in range(order.users or ARRIVING)]
        self._order = list(order.turns)
        self._left = order.count or sys.maxsize
        self._pause = order.pause
        self._requests = [(each.url, each.request) for each in order.requests]
        self._rights = [RightAnswer.from_json(each.right) for each in order.requests]
        self._vary = [bool(people or names_in_request(*request)) for request in self._requests]
        self._lines: list[bytes] = []
        self._problems = self._reconnected = 0
        self._stalls_s: list[float] = []  # a heap of the longest

    async def run(self, stop: asyncio.Event) -> None:
        """Send requests until `stop` is set or all requests have ended, and print their lines."""
        background = [asyncio.create_task(self._report()), asyncio.create_task(self._watch())]
        users = range(self._given.users)
        everything = asyncio.gather(*map(self._visit, users)) if users else asyncio.ensure_future(self._arrive())
        stopping = asyncio.create_task(stop.wait())
        waiting: list[asyncio.Future[Any]] = [everything, stopping]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in (*background, *waiting):
            task.cancel()
        results = await asyncio.gather(*background, *waiting, return_exceptions=True)
        stalls_s = [round(stall_s, 4) for stall_s in sorted(self._stalls_s, reverse=True)]
        self.report({"reconnected": self._reconnected, "stalls_s": stalls_s})
        self._flush()
        for result in results:  # a fault of this script must not look like an idle server
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    async def _visit(self, user: int) -> None:
        """Send one request after the other on a connection of this user."""
        draw = random.Random(f"{self._given.seed} {user}")  # noqa: S311
        begin = user * len(self._order) // self._given.users  # neighbours would send almost the same requests
        async with _client(self._given.keep_alive) as session:
            first_s = draw.random() * self._given.stagger_s
            if self._pause:  # users who began together would all send their next requests together, too
                first_s += self._pause.draw_rest_s(draw)
            await _until(self._given.begin_s + first_s)
            for index in itertools.cycle(self._order[begin:] + self._order[:begin]):
                if self._left <= 0:
                    return
                self._left -= 1
                outcome = await self._send(session, user, index, None)
                if outcome != "correct":
                    await asyncio.sleep(self._given.failure_pause_s)
                if self._pause:
                    await asyncio.sleep(self._pause.draw_s(draw))

    async def _arrive(self) -> None:
        """Send each request when it is due, even if earlier requests are unanswered (open loop)."""
        begin_s = self._given.begin_s
        async with _client(self._given.keep_alive) as session, asyncio.TaskGroup() as sending:
            for number, due_s in enumerate(self._given.due_s):
                await _until(begin_s + due_s)
                index = self._order[number % len(self._order)]
                sending.create_task(self._send(session, number % LARGEST_INDEX, index, begin_s + due_s))
        await asyncio.Event().wait()  # the load isn't over when its last request has ended

    async def _send(self, session: aiohttp.ClientSession, user: int, index: int, due_s: float | None) -> str:
        """Send a request and note its line; return its outcome."""
        sent_s = time.monotonic()
        person = self._people[user % len(self._people)] if self._vary[index] else None
        exchange = Exchange(self, session, user, self._rights[index], person)
        try:
            await exchange.send(*self._requests[index], self._given.timeout_s, posts_jobs=self._given.posts_jobs)
        finally:
            ended_s = time.monotonic()
            exchange.note_events()
            times_s = sent_s if due_s is None else due_s, sent_s, ended_s
            problem = ""
            if exchange.problem and self._problems < MOST_PROBLEMS:
                self._problems += 1
                if person is not None:
                    person.hide_secrets()
                problem = masked(" ".join(exchange.problem.split()))[:LONGEST_PROBLEM]
            self.report([user, index, *times_s, exchange.status, exchange.size_bytes, exchange.outcome, problem])
        return exchange.outcome

    def report(self, value: object) -> None:
        self._lines.append(msgspec.json.encode(value) + b"\n")

    def note_reconnection(self) -> None:
        self._reconnected += 1

    async def _report(self) -> None:
        """Write lines at intervals rather than one by one, so that the reader wakes up less often."""
        while True:
            await asyncio.sleep(REPORT_INTERVAL_S)
            self._flush()

    def _flush(self) -> None:
        if self._lines:
            output, self._lines = b"".join(self._lines), []
            while output:
                output = output[os.write(1, output) :]

    async def _watch(self) -> None:
        """Note for how long the event loop does not resume a task that is due."""
        while True:
            due_s = time.monotonic() + LOOK_S
            await asyncio.sleep(LOOK_S)
            stall_s = time.monotonic() - due_s
            if stall_s >= LEAST_STALL_S:
                add = heapq.heappush if len(self._stalls_s) < MOST_STALLS else heapq.heappushpop
                add(self._stalls_s, stall_s)


class Exchange:
    """One request and its response. If it is cancelled, its outcome is `open`, unless an event was already wrong.

    Args:
        user: number of the user or, in an open loop, of the request.
        person: the user whose values the request contains, or None if the request is always the same.
    """

    def __init__(
        self,
        load: Load,
        session: aiohttp.ClientSession,
        user: int,
        right: RightAnswer,
        person: SimulatedUser | None = None,
    ) -> None:
        self._load = load
        self._session = session
        self._user = user
        self._right = right
        self._person = person
        self.status = 0
        self.size_bytes = 0
        self.outcome = "open"
        self.problem = ""
        self._check: EventCheck | None = None
        self._waits_us: list[int] = []

    async def send(self, url: str, request: Request, timeout_s: float, *, posts_jobs: bool) -> None:
        try:
            if self._person is not None:
                url, request = self._person.filled(url, request)
            if self._right.stream:
                await self._read_stream(url, request, timeout_s)
            else:
                async with asyncio.timeout(timeout_s):
                    await (self._post_job(url, request) if posts_jobs else self._read(url, request))
        except asyncio.CancelledError:
            if self._check and (problem := self._check.problem_so_far()):
                self.outcome, self.problem = "wrong", problem
            raise
        except CaseFailedError as failed:
            self.outcome = "lost" if failed.code in (BROKEN, "no_answer") else "wrong"
            self.problem = str(failed)
        except TimeoutError:
            self.outcome, self.problem = "late", f"{request.method} {url} was not answered within {timeout_s:.1f} s"
        except (aiohttp.ClientError, ValueError, OSError) as error:
            self.outcome, self.problem = "lost", f"{request.method} {url}: {one_line(error)}"

    async def _open(self, url: str, request: Request, wait_s: float | None = None) -> aiohttp.ClientResponse:
        """Send the request and return the response, whose body is still unread.

        As browsers do, repeat a safe request if the server has just closed the idle connection (RFC 9110, 9.2.2).
        """
        context: dict[str, bool] = {}
        try:
            return await open_request(self._session, url, request, wait_s=wait_s, trace_request_ctx=context)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            has_begun = not isinstance(getattr(error, "message", ""), str)  # then, it is the part of the head
            if request.method not in REPEATABLE or not context.get("is_reused") or has_begun:
                raise
        self._load.note_reconnection()
        return await open_request(self._session, url, request, wait_s=wait_s, trace_request_ctx={})

    async def _read(self, url: str, request: Request) -> None:
        async with await self._open(url, request) as response:
            self.status = response.status
            kept = {"most_kept": MOST_KEPT} if self._right.rule.mode == ANY else {}
            answer = await read_response(response, self._right.answer, is_decoded=False, **kept)  # sizes count as sent
        self.size_bytes = len(answer.body) + answer.rest_bytes
        encodings = answer.headers.get("content-encoding", "")
        body = answer.body if answer.rest_bytes or not encodings else decoded(answer.body, encodings)
        self._judge(answer.status, body, answer.headers)

    async def _post_job(self, url: str, request: Request) -> None:
        answer = await job_result(self._session, url, request, self._right.answer)
        self.status, self.size_bytes = answer.status, len(answer.body)
        self._judge(answer.status, answer.body, answer.headers)

    def _judge(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        right = self._right
        problem = right.problem(body, headers) or error_instead_of(right, body, headers.get("content-type", ""))
        self.problem = problem if status == right.status else f"status {status}"
        self.outcome = outcome_of(status, [right.status], has_right_body=not self.problem)

    async def _read_stream(self, url: str, request: Request, timeout_s: float) -> None:
        stream, last_s = self._right.stream, time.monotonic()
        assert stream is not None
        check = EventCheck(self._right.rule, self._right.events, self._right.event_count, stream)

        def take(event: bytes) -> None:
            nonlocal last_s
            now_s = time.monotonic()
            if not check.take(event):
                return
            self._waits_us.append(round((now_s - last_s) * 1e6))
            last_s = now_s
            if len(self._waits_us) >= EVENTS_PER_LINE:
                self.note_events()

        async with await self._open(url, request, timeout_s) as response:
            self.status = response.status
            if response.status >= FIRST_ERROR or response.status != self._right.status:
                self.problem = f"status {response.status}"
                self.outcome = outcome_of(response.status, [self._right.status], has_right_body=False)
                return
            self._check = check
            try:
                await read_events(response, stream, take)
            finally:
                self.size_bytes = check.size_bytes
            self.problem = check.problem()
            self.outcome = "wrong" if self.problem else "correct"

    def note_events(self) -> None:
        if self._waits_us:
            self._load.report({"user": self._user, "waits_us": self._waits_us})
            self._waits_us = []


async def _until(at_s: float) -> None:
    await asyncio.sleep(at_s - time.monotonic())


def _client(keep_alive: bool) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientSession]:
    """Return a session that notes in the context of a request whether its connection was used before."""
    tracing = aiohttp.TraceConfig()
    tracing.on_connection_reuseconn.append(_note_reuse)
    return client(keep_alive=keep_alive, trace_configs=[tracing] if keep_alive else None)


async def _note_reuse(_session: object, context: Any, _params: object) -> None:
    context.trace_request_ctx["is_reused"] = True


async def _set_up(order: SetupOrder) -> list[SimulatedUser]:
    """Return users who have sent the requests of their setup; raise CaseFailedError if one of these fails."""
    numbers.digit = order.digit
    people = [SimulatedUser(number + 1, has_setup=True) for number in range(order.users)]
    at_once = asyncio.Semaphore(AT_ONCE)

    async def one_by_one(person: SimulatedUser) -> None:
        async with at_once:
            await person.set_up(session, order.url, order.setup)

    async with client() as session:
        try:
            await asyncio.gather(*map(one_by_one, people))
        except aiohttp.ClientConnectorError as error:
            raise CaseFailedError("refused", f"setup: the connection was refused: {error.strerror}") from None
    return people


async def _main() -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    os.write(1, b'"ready"\n')
    line, people, reason = await _next_line(), list[SimulatedUser](), ""
    if line and SETUP in line:
        try:
            people = await _set_up(msgspec.convert(line, SetupOrder))
        except CaseFailedError as failed:
            reason = masked(" ".join(str(failed).split()))
        os.write(1, msgspec.json.encode({SETUP: reason}) + b"\n")
        line = None if reason else await _next_line()
    if line is None:
        return
    order = msgspec.convert(line, Order)

    def read() -> None:
        if not os.read(0, 65536):
            loop.remove_reader(0)
            stop.set()

    loop.add_reader(0, read)
    gc.freeze()
    if order.is_precise:
        gc.disable()  # a collection would delay requests, and the process only runs for seconds
        with contextlib.suppress(OSError):
            os.nice(NICENESS)
    await Load(order, people).run(stop)


async def _next_line() -> Any:
    """Return the next line of stdin, or None at its end."""
    return json.loads(await asyncio.to_thread(sys.stdin.readline) or "null")


if __name__ == "__main__":
    with contextlib.suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(_main())
