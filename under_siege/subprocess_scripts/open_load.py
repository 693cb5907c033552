"""Generate a load with an open loop: send each request when it is due, even if earlier requests are unanswered.

With `users`, the loop is closed: each user sends a request as soon as the previous one has been answered.

The script prints `ready`, and reads one line of JSON:
    requests            a list of requests, each with these keys:
        url, method, headers, body  the body is base64
        status, rule, answer        the correct response: status, fields of the `BodyRule`, and body as base64
        stream, events, count       if the response is a stream: fields of `Stream`, the expected events as base64, and
                                    their number; otherwise, `stream` is null
    order               indexes into `requests`, in the order in which they are sent; the order is repeated
    keep_alive          whether connections stay open
    headers             names and values of the headers that each correct response must have
    begin_s             the start of the load, as a time of `time.monotonic`
    due_s               the time from the start until each request is due
    users               the number of users in a closed loop, or 0; then `due_s` is empty
Then it prints a line for each finished request: `number,sent,ended,outcome`, with times in seconds since the start. The
line of a stream also has the microseconds to its first event (-1: none) and between its events: `,first gap gap ...`.
When stdin is closed, it abandons unanswered requests, prints their lines, and exits.
"""

import asyncio
import base64
import contextlib
import gc
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from under_siege.load.http_client import client, open_request, read_response
from under_siege.load.request import BodyRule, Request, Stream
from under_siege.load.streams import BROKEN, EventCheck, read_events
from under_siege.record.record import CaseFailedError

REPORT_INTERVAL_S = 0.05
NICENESS = -10  # set if permitted; the generator needs little CPU time, but must send requests on time
NONE, REFUSED, LIMITED, LOST, WRONG, UNANSWERED = "", "refused", "limited", "lost", "wrong", "unanswered"
REFUSALS = {429: LIMITED, 503: REFUSED}
RETRY_S = 0.1  # pause of a user in a closed loop after a request that was not answered correctly


class OpenRequest:
    """A request and its correct response."""

    def __init__(self, data: dict[str, Any]) -> None:
        headers = tuple((name, value) for name, value in data["headers"])
        self.url, self.request = data["url"], Request(data["method"], headers, base64.b64decode(data["body"]))
        self.status, self.rule, self.answer = data["status"], BodyRule(**data["rule"]), base64.b64decode(data["answer"])
        self.stream = Stream(**data["stream"]) if data["stream"] else None
        self.events, self.count = [base64.b64decode(event) for event in data["events"]], data["count"]


class OpenLoad:
    """Requests that are sent at given times, or by users who wait for each response."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._requests, self._order = [OpenRequest(data) for data in order["requests"]], order["order"]
        self._begin_s, self._due_s, self._users = order["begin_s"], order["due_s"], order["users"]
        self._keep_alive, self._headers = order["keep_alive"], order["headers"]
        self._lines: list[str] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Send each request when it is due, and report finished requests until `stop` is set."""
        async with client(keep_alive=self._keep_alive) as session:
            requests: set[asyncio.Task[str]] = set()
            numbers = itertools.count()
            tasks = [asyncio.create_task(self._send_all(session, requests)), asyncio.create_task(self._report())]
            tasks += [asyncio.create_task(self._closed_loop(session, numbers)) for _ in range(self._users)]
            await stop.wait()
            for task in (*tasks, *requests):
                task.cancel()
            await asyncio.gather(*tasks, *requests, return_exceptions=True)
            self._flush()

    async def _send_all(self, session: aiohttp.ClientSession, requests: set[asyncio.Task[str]]) -> None:
        for number, due_s in enumerate(self._due_s):
            await asyncio.sleep(self._begin_s + due_s - time.monotonic())
            task = asyncio.create_task(self._send(session, number))
            requests.add(task)
            task.add_done_callback(requests.discard)

    async def _closed_loop(self, session: aiohttp.ClientSession, numbers: Iterator[int]) -> None:
        await asyncio.sleep(self._begin_s - time.monotonic())
        for number in numbers:
            if await self._send(session, number) != NONE:
                await asyncio.sleep(RETRY_S)

    async def _send(self, session: aiohttp.ClientSession, number: int) -> str:
        sent_s, outcome, events_s = time.monotonic(), UNANSWERED, list[float]()
        one = self._requests[self._order[number % len(self._order)]]
        try:
            outcome = await self._outcome(session, one, events_s)
        finally:
            times = sent_s - self._begin_s, time.monotonic() - self._begin_s
            events = f",{_waits(sent_s, events_s)}" if one.stream else ""
            self._lines.append(f"{number},{times[0]:.6f},{times[1]:.6f},{outcome}{events}\n")
        return outcome

    async def _outcome(self, session: aiohttp.ClientSession, one: OpenRequest, events_s: list[float]) -> str:
        try:
            async with open_request(session, one.url, one.request) as response:
                if one.stream and response.status == one.status:
                    return await self._outcome_of_events(response, one, one.stream, events_s)
                answer = await read_response(response, len(one.answer))
        except CaseFailedError as failed:
            return LOST if failed.code == BROKEN else WRONG  # the body is too long
        except (aiohttp.ClientError, ValueError, OSError):
            return LOST
        has_headers = all(answer.headers.get(name.lower()) == value for name, value in self._headers)
        if answer.status == one.status and has_headers and not one.rule.problem(answer.body, one.answer):
            return NONE
        return REFUSALS.get(answer.status, WRONG)

    async def _outcome_of_events(
        self, response: aiohttp.ClientResponse, one: OpenRequest, stream: Stream, events_s: list[float]
    ) -> str:
        check = EventCheck(one.rule, one.events, one.count, stream.kind)

        def take(event: bytes) -> None:
            events_s.append(time.monotonic())
            check.take(event)

        await read_events(response, stream, take)
        return WRONG if check.problem() else NONE

    async def _report(self) -> None:
        """Write lines at intervals rather than one by one, so that the reader wakes up less often."""
        while True:
            await asyncio.sleep(REPORT_INTERVAL_S)
            self._flush()

    def _flush(self) -> None:
        if self._lines:
            output, self._lines = "".join(self._lines).encode(), []
            while output:
                output = output[os.write(1, output) :]


def _waits(sent_s: float, events_s: Sequence[float]) -> str:
    """Return the microseconds to the first event and between the events."""
    if not events_s:
        return "-1"
    waits_s = (later - earlier for earlier, later in itertools.pairwise([sent_s, *events_s]))
    return " ".join(str(round(wait_s * 1e6)) for wait_s in waits_s)


async def _main() -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    os.write(1, b"ready\n")
    order = json.loads(await asyncio.to_thread(sys.stdin.readline) or "null")
    if order is None:
        return

    def read() -> None:
        if not os.read(0, 65536):
            loop.remove_reader(0)
            stop.set()

    loop.add_reader(0, read)
    gc.freeze()
    gc.disable()  # a collection would delay requests, and the process only runs for seconds
    await OpenLoad(order).run(stop)


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(_main())
