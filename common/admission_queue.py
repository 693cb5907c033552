"""Limit how many requests wait for the task, and shed the rest."""

import asyncio
import itertools
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from common.disconnects import who_has_left
from common.listener import waiting_in_kernel
from common.options import Options
from common.responses import unready_while

LOOK_S = 0.05  # pause between two checks; each may delay running tasks by taking the GIL
Look = Callable[[Mapping[int, Any]], list[int]]


class Line:
    """The requests for the long task that have begun and not ended: those that run, and those that wait."""

    def __init__(self, options: Options, look: Look = who_has_left) -> None:
        self._workers, self._queue, self._look = options.workers, options.queue, look
        self._clients: dict[int, Any] = {}  # of each who is in it: ticket and socket
        self._tickets, self._next_look_s = itertools.count(), 0.0
        self.connections: Callable[[], int] = int  # how many clients are connected; set by servers that know
        unready_while(self.refusal)

    @property
    def begun(self) -> int:
        """How many are in it."""
        return len(self._clients)

    def refusal(self) -> str:
        """One line that says why nobody may join now; empty if one more may."""
        if self._is_full():
            self._forget_who_has_left()
        return self._told(self.begun - self._workers) if self._is_full() else ""

    def join(self, client: Any) -> int:
        """One more has begun, whose client is at the other end of this socket; gives the ticket to leave with."""
        ticket = next(self._tickets)
        self._clients[ticket] = client
        return ticket

    def is_crowded(self) -> bool:
        """Return whether more clients are connected than this server accepts, so that some must be refused."""
        return self.connections() > self._workers + self._queue

    def wait_for_turn(self) -> None:
        """Returns when one that has joined may begin; here at once."""

    def leave(self, ticket: int) -> None:
        """It has ended, however it did."""
        self._clients.pop(ticket, None)

    def has_left(self, ticket: int) -> bool:
        """Whether its client has, on any thread; all of them are looked at together, and that not often."""
        now_s = time.monotonic()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + LOOK_S
            self._forget_who_has_left()
        return ticket not in self._clients

    def unanswered(self) -> int:
        """How many would be dropped if the server ended now."""
        return self.begun

    def _is_full(self) -> bool:
        return self.begun >= self._workers + self._queue

    def _forget_who_has_left(self) -> None:
        """An event loop may have told of somebody new before it tells of those."""
        for ticket in self._look(dict(self._clients)):
            self.leave(ticket)

    def _told(self, waiting: int) -> str:
        return f"the queue is full, {max(0, waiting)} requests wait in it"


class LineInKernel(Line):
    """The line of a process that takes one request at a time: all others wait in the kernel's queue.

    What a process of this kind refuses it has taken from there, so it is told when it would have had its turn.
    """

    def __init__(self, options: Options, listener: socket.socket) -> None:
        super().__init__(options)
        self._listener = listener

    def refusal(self) -> str:
        waiting = waiting_in_kernel(self._listener)
        return self._told(waiting) if waiting > self._queue else ""

    def unanswered(self) -> int:
        return self.begun + waiting_in_kernel(self._listener)


class Turns:
    """In each turn of the loop one begins, in the order in which they came, while there is a crowd.

    Else all that were heard together begin together, as on any loop: tasks that hold it are done one after the other
    before anybody else is heard. In a crowd nobody could be told so that they are too much.
    """

    def __init__(self, is_crowded: Callable[[], bool]) -> None:
        self._is_crowded = is_crowded
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def mine(self) -> None:
        """Returns when it has come."""
        if not self._waiting and not self._is_crowded():
            return
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._next)
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # it has not been cancelled
                turn.set_result(None)
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)


PAUSE_S, QUIET_PAUSES = 0.01, 5  # a burst ends when no request arrives during this many pauses of the event loop
MOST_HOLD_S = 2.0  # then tasks start even if the burst goes on, so that a steady flood does not stop all work


class Burst:
    """Requests that arrive in quick succession while more clients are connected than the server can accept."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._arrivals = 0
        self._watcher: asyncio.Task[None] | None = None
        self._tasks_may_start = threading.Event()
        self._tasks_may_start.set()

    def note_arrival(self) -> None:
        """Record that the event loop has read a request for the long task."""
        self._arrivals += 1
        if self._watcher is None and self._line.is_crowded():
            self._tasks_may_start.clear()
            self._watcher = asyncio.create_task(self._watch())

    def wait_for_end(self) -> None:
        """Block the calling thread until the burst has ended or has lasted too long."""
        self._tasks_may_start.wait()

    async def _watch(self) -> None:
        try:
            await self._until_quiet()
        finally:
            self._watcher = None
            self._tasks_may_start.set()

    async def _until_quiet(self) -> None:
        hold_until_s, quiet_pauses = time.monotonic() + MOST_HOLD_S, 0
        while quiet_pauses < QUIET_PAUSES:
            before = self._seen()
            await asyncio.sleep(PAUSE_S)
            quiet_pauses = quiet_pauses + 1 if self._seen() == before else 0
            if time.monotonic() >= hold_until_s:
                self._tasks_may_start.set()

    def _seen(self) -> tuple[int, int]:
        return self._arrivals, self._line.connections()
