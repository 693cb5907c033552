"""Limit queued requests, shed excess load, and drop clients that disconnect or send too slowly."""

import asyncio
import itertools
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from common.lifecycle import unready_while, waiting_in_kernel
from common.options import Options

HEAD_LIMIT_S = 5.0  # timeout for receiving a request head; slower clients are disconnected
ANSWER_LIMIT_S = 5.0  # timeout for sending a response, in servers where a slow client blocks all others
LINGER_S = 0.1  # in these servers, how long a client may keep its connection open after the response

CHECK_INTERVAL_S = 0.05  # minimum interval between checks for disconnects; each check needs the GIL, which delays tasks


class DeadlineSocket(socket.socket):
    """A client socket with a deadline for the request head, because a slow client would block all others."""

    def __init__(self, client: socket.socket) -> None:
        """Take over the connection of `client`, and detach `client` from it."""
        super().__init__(client.family, client.type, client.proto, client.detach())
        self._deadline_s: float | None = time.monotonic() + HEAD_LIMIT_S

    def head_is_read(self) -> None:
        """Replace the deadline for the request head with the send timeout for the response."""
        self._deadline_s = None
        limit_answers(self)

    def shutdown(self, how: int) -> None:
        """End the response, and give the client `LINGER_S` to close the connection, even if it still sends data."""
        self._deadline_s = time.monotonic() + LINGER_S
        super().shutdown(how)

    def recv(self, *arguments: Any) -> bytes:
        self._set_timeout()
        return super().recv(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        self._set_timeout()
        return super().recv_into(*arguments)

    def _set_timeout(self) -> None:
        if self._deadline_s is None:
            return
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the client takes too long")
        self.settimeout(left_s)


def limit_answers(client: socket.socket) -> None:
    """Set a timeout for sending the response, but none for the task."""
    client.settimeout(None)
    limit = struct.pack("ll", *divmod(round(ANSWER_LIMIT_S * 1_000_000), 1_000_000))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def is_disconnected(client: Any) -> bool:
    """Return whether the connection is closed or reset. A client that has closed its side doesn't want a response.

    Args:
        client: a blocking `socket.socket` without a timeout, because with a timeout, `recv` would wait.
    """
    try:
        return bool(client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"")
    except BlockingIOError:
        return False
    except OSError:  # reset, or closed by this server
        return True


def disconnected(clients: Mapping[int, socket.socket]) -> list[int]:
    """Return the keys of the clients that have disconnected, using a single `poll` call if the system supports it."""
    hang_up = getattr(select, "POLLRDHUP", None)
    if hang_up is None:
        return [key for key, client in clients.items() if is_disconnected(client)]
    poll, keys = select.poll(), {client.fileno(): key for key, client in clients.items()}
    closed_here = [key for key, client in clients.items() if client.fileno() < 0]
    for descriptor in keys:
        if descriptor >= 0:
            poll.register(descriptor, hang_up)
    return closed_here + [keys[descriptor] for descriptor, _ in poll.poll(0)]


class AdmissionQueue:
    """Track the requests for the long task that have been admitted and are running or queued."""

    def __init__(
        self, options: Options, find_disconnected: Callable[[Mapping[int, Any]], list[int]] = disconnected
    ) -> None:
        self._workers, self._queue, self._find_disconnected = options.workers, options.queue, find_disconnected
        self._clients: dict[int, Any] = {}  # ticket → socket
        self._tickets, self._next_check_s = itertools.count(), 0.0
        self.connections: Callable[[], int] = int  # the number of connected clients; servers replace this function
        unready_while(self.refusal)

    @property
    def admitted(self) -> int:
        return len(self._clients)

    def refusal(self) -> str:
        """Return a one-line reason to refuse the next request, or an empty string if it can be admitted."""
        if self._is_full():
            self._drop_disconnected()
        return _full(self.admitted - self._workers) if self._is_full() else ""

    def join(self, client: Any) -> int:
        """Admit a request that arrived on this socket, and return its ticket."""
        ticket = next(self._tickets)
        self._clients[ticket] = client
        return ticket

    def is_overloaded(self) -> bool:
        """Return whether more clients are connected than the workers and the queue can serve."""
        return self.connections() > self._workers + self._queue

    def wait_for_turn(self) -> None:
        """Wait until an admitted request may start. The base class does not wait."""

    def leave(self, ticket: int) -> None:
        """Remove a finished request, whether or not it was answered."""
        self._clients.pop(ticket, None)

    def is_disconnected(self, ticket: int) -> bool:
        """Return whether the client of this request has disconnected. Any thread may call this method."""
        now_s = time.monotonic()
        if now_s >= self._next_check_s:
            self._next_check_s = now_s + CHECK_INTERVAL_S
            self._drop_disconnected()
        return ticket not in self._clients

    def unanswered(self) -> int:
        """Return how many requests would be dropped if the server exited now."""
        return self.admitted

    def _is_full(self) -> bool:
        return self.admitted >= self._workers + self._queue

    def _drop_disconnected(self) -> None:
        for ticket in self._find_disconnected(dict(self._clients)):
            self.leave(ticket)


class KernelQueue(AdmissionQueue):
    """The queue of a process that handles one request at a time; other requests wait in the kernel's accept queue.

    The process must accept a connection before it can refuse the request, so even a client that gets a 503 must wait.
    """

    def __init__(self, options: Options, listener: socket.socket) -> None:
        super().__init__(options)
        self._listener = listener

    def refusal(self) -> str:
        waiting = waiting_in_kernel(self._listener)
        return _full(waiting) if waiting > self._queue else ""

    def unanswered(self) -> int:
        return self.admitted + waiting_in_kernel(self._listener)


def _full(waiting: int) -> str:
    return f"the queue is full: {max(0, waiting)} waiting"


class LoopThrottle:
    """Start one task per iteration of the event loop while the server is overloaded.

    Otherwise, tasks that arrive together would block the loop one after another, and the server could not reject
    requests between them.
    """

    def __init__(self, is_overloaded: Callable[[], bool]) -> None:
        self._is_overloaded = is_overloaded
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Wait until the calling task may start. Tasks start in the order in which they called this method."""
        if not self._waiting and not self._is_overloaded():
            return
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._start_next)
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _start_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # done if the request was cancelled
                turn.set_result(None)
                break
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._start_next)


PAUSE_S, QUIET_PAUSES = 0.01, 5  # a burst ends after QUIET_PAUSES consecutive pauses of PAUSE_S without activity
MOST_HOLD_S = 2.0  # maximum delay of tasks by a burst; without a limit, a steady stream of requests would stop all work


class ArrivalBurst:
    """Delay tasks while requests arrive in quick succession and the server is overloaded."""

    def __init__(self, admission: AdmissionQueue) -> None:
        self._admission = admission
        self._arrivals = 0
        self._watcher: asyncio.Task[None] | None = None
        self._tasks_may_start = threading.Event()
        self._tasks_may_start.set()

    def note_arrival(self) -> None:
        """Record that the event loop has read a request for the long task."""
        self._arrivals += 1
        if self._watcher is None and self._admission.is_overloaded():
            self._tasks_may_start.clear()
            self._watcher = asyncio.create_task(self._watch())

    def wait_for_end(self) -> None:
        """Block the calling thread until the burst has ended or has lasted `MOST_HOLD_S`."""
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
            before = self._activity()
            await asyncio.sleep(PAUSE_S)
            quiet_pauses = quiet_pauses + 1 if self._activity() == before else 0
            if time.monotonic() >= hold_until_s:
                self._tasks_may_start.set()

    def _activity(self) -> tuple[int, int]:
        return self._arrivals, self._admission.connections()
