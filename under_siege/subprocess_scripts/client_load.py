"""Load a server with the bench's own client: users, who may pause or post jobs, or requests at a fixed rate.

usage: python -P client_load.py ORDER STREAMS

`load/client.py` writes the JSON file ORDER. The script prints `ready`, and starts when it reads a line. For each
response, it prints `user,status,seconds,bytes,request`; the seconds count from the moment the request was due, and the
request is an index. After SIGTERM, when stdin is closed, or after the given number of requests, the script drops
unfinished requests. If there are pauses or a fixed rate, it prints these with the status 000. To stderr, it prints how
many requests had no response, as in `lost: 3`, and the most frequent reasons, as in `error: Server disconnected`.

If the responses are streams, the script checks each event. At the end, it writes the times of the events to STREAMS.
"""

import asyncio
import base64
import contextlib
import gc
import itertools
import json
import os
import random
import resource
import signal
import sys
import time
from array import array
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from common.errors import one_line
from under_siege.load.http_client import client, open_request, read_response
from under_siege.load.jobs import job_result
from under_siege.load.request import BodyRule, Pause, Request, Stream
from under_siege.load.streams import EventCheck, read_events
from under_siege.record.record import LARGEST_INDEX, UNANSWERED, CaseFailedError

AFTER_A_LOSS_S = 0.1  # pause of a user after a request without a response
MOST_BYTES = 64_000_000  # maximum size of a body; a request with a longer response counts as lost
MOST_REASONS = 3
FIRST_ERROR = 300  # the lowest status of a response that is no stream
LOOK_S = 0.005  # interval at which the script checks whether it keeps up
OPEN, FAILED = "open", "failed"  # outcomes of streams


class ClientLoad:
    """Users that each send one request after another, or requests that are sent at given times."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._given, self._order, self._left = order, order["order"], order["count"] or sys.maxsize
        self._pause = Pause(*order["pause"]) if order["pause"] else None
        self._is_paced = self._pause is not None or order["arrivals_per_s"] is not None
        self._requests = [
            (url, Request(method, tuple((name, value) for name, value in headers), base64.b64decode(body)))
            for url, method, headers, body in order["requests"]
        ]
        self._stream = Stream(**order["stream"]) if order["stream"] else None
        self._rule, self._events = BodyRule(**order["rule"]), [base64.b64decode(event) for event in order["events"]]
        self.streams: list[tuple[int, float, float, int, list[int], str]] = []  # rows of `Streams`
        self.late_s = array("d")
        self.lost = Counter[str]()

    async def run(self, stop: asyncio.Event) -> None:
        """Send requests until `stop` is set or all requests have been sent."""
        users = range(self._given["users"])
        sending = [self._visit(user) for user in users] if users else [self._arrive()]
        everything = asyncio.gather(*sending)
        stopping = asyncio.create_task(stop.wait())
        waiting: list[asyncio.Future[Any]] = [everything, stopping]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        everything.cancel()
        await asyncio.gather(everything, return_exceptions=True)

    async def _visit(self, user: int) -> None:
        """Send one request after the other on a connection of this user."""
        draw, begin = random.Random(f"{self._given['seed']} {user}"), user % len(self._order)  # noqa: S311
        async with client(keep_alive=self._given["keep_alive"]) as session:
            await asyncio.sleep(draw.random() * self._given["stagger_s"])
            if self._pause:  # users that begin together would all send their next requests together, too
                # As browsers do, repeat a safe request if the server has just closed the idle connection.
                session._retry_connection = True
                await asyncio.sleep(draw.random() * self._pause.mean_s)
            for index in itertools.cycle(self._order[begin:] + self._order[:begin]):
                if self._left <= 0:
                    return
                self._left -= 1
                await self._send(session, user, index, time.monotonic())
                if self._pause:
                    await asyncio.sleep(self._pause.draw_s(draw))

    async def _arrive(self) -> None:
        """Send each request when it is due, even if earlier requests are unanswered (Poisson process, open loop)."""
        draw, time_s, begin_s = random.Random(self._given["seed"]), self._given["time_s"], time.monotonic()  # noqa: S311
        count = round(self._given["arrivals_per_s"] * time_s)
        async with client(keep_alive=self._given["keep_alive"]) as session, asyncio.TaskGroup() as requests:
            for number, due_s in enumerate(sorted(draw.uniform(0, time_s) for _ in range(count))):
                await asyncio.sleep(begin_s + due_s - time.monotonic())
                index = self._order[number % len(self._order)]
                requests.create_task(self._send(session, number % LARGEST_INDEX, index, begin_s + due_s))
            await asyncio.Event().wait()  # the bench ends the load

    async def _send(self, session: aiohttp.ClientSession, user: int, index: int, due_s: float) -> None:
        try:
            async with asyncio.timeout(None if self._stream else self._given["timeout_s"]):
                if self._stream:
                    answer = await self._read_stream(session, user, index, due_s, self._stream)
                else:
                    answer = await self._answer(session, *self._requests[index])
        except asyncio.CancelledError:
            if self._is_paced:
                _report(user, UNANSWERED, 0, due_s, index)
            raise
        except (aiohttp.ClientError, CaseFailedError, ValueError, OSError) as error:  # TimeoutError is an OSError
            self.lost[one_line(error)] += 1
            await asyncio.sleep(AFTER_A_LOSS_S)
        else:
            _report(user, *answer, due_s, index)

    async def _answer(self, session: aiohttp.ClientSession, url: str, request: Request) -> tuple[int, int]:
        """Return the status and the size of a response."""
        if self._given["posts_jobs"]:
            answer = await job_result(session, url, request, MOST_BYTES)
        else:
            async with open_request(session, url, request) as response:
                answer = await read_response(response, MOST_BYTES, is_decoded=False)  # sizes count as sent
        return answer.status, len(answer.body)

    async def _read_stream(
        self, session: aiohttp.ClientSession, user: int, index: int, due_s: float, stream: Stream
    ) -> tuple[int, int]:
        """Return the status of a response and the size of its events; raise CaseFailedError if an event is wrong."""
        check = EventCheck(self._rule, self._events, self._given["event_count"], stream.kind)
        at_s, outcome = array("d"), FAILED

        def take(event: bytes) -> None:
            at_s.append(time.monotonic())
            check.take(event)

        try:
            async with open_request(session, *self._requests[index], wait_s=self._given["timeout_s"]) as response:
                if response.status < FIRST_ERROR:
                    await read_events(response, stream, take)
                    if problem := check.problem():
                        raise CaseFailedError("wrong_answer", f"{response.url.path}: {problem}")
                    outcome = ""
                return response.status, check.size_bytes
        except asyncio.CancelledError:
            outcome = OPEN
            raise
        finally:
            first_us = round((at_s[0] - due_s) * 1e6) if at_s else -1
            gaps_us = [round((later - earlier) * 1e6) for earlier, later in itertools.pairwise(at_s)]
            self.streams.append((user, due_s, time.monotonic(), first_us, gaps_us, outcome))

    async def watch(self) -> None:
        """Note how late the event loop resumes a task that is due."""
        while True:
            due_s = time.monotonic() + LOOK_S
            await asyncio.sleep(LOOK_S)
            self.late_s.append(max(0.0, time.monotonic() - due_s))


def _report(user: int, status: int, size_bytes: int, due_s: float, index: int) -> None:
    os.write(1, f"{user},{status:03},{time.monotonic() - due_s:.6f},{size_bytes},{index}\n".encode())


def _write_times(load: ClientLoad) -> None:
    late_s = sorted(load.late_s)
    written = {"streams": load.streams, "late_s": late_s[int(0.99 * len(late_s))] if late_s else None}
    Path(sys.argv[2]).write_text(json.dumps(written, separators=(",", ":")))


async def _main(order: dict[str, Any]) -> None:
    loop, stop, load = asyncio.get_running_loop(), asyncio.Event(), ClientLoad(order)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    os.write(1, b"ready\n")
    if not await asyncio.to_thread(sys.stdin.readline):
        return
    loop.add_reader(0, stop.set)
    gc.freeze()
    watching = asyncio.create_task(load.watch()) if order["stream"] else None
    await load.run(stop)
    if watching:
        watching.cancel()
        _write_times(load)
    reasons = [f"error: {reason}\n" for reason, _ in load.lost.most_common(MOST_REASONS)]
    sys.stderr.write(f"{''.join(reasons)}lost: {load.lost.total()}\n")


if __name__ == "__main__":
    with contextlib.suppress(ValueError, OSError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with contextlib.suppress(BrokenPipeError):
        asyncio.run(_main(json.loads(Path(sys.argv[1]).read_text())))
