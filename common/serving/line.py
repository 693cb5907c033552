"""The line before the long task: how many requests are in it, and whether one more may join."""

import itertools
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any

from common.serving.client import who_has_left
from common.serving.listening import waiting_in_kernel
from common.serving.options import Options
from common.serving.readiness import unready_while

LOOK_S = 0.05  # between two looks of tasks that run; each may cost them the GIL
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
