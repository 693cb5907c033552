"""Watch the client of a request: whether it is still connected, and whether it sends too slowly."""

import select
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

HEAD_LIMIT_S = 5.0  # timeout for the head of a request; a slower client is disconnected
ANSWER_LIMIT_S = 5.0  # timeout for each part of an answer, if one client blocks all others
LINGER_S = 0.1  # time for such a client to close its connection after its answer


class DeadlineSocket(socket.socket):
    """The socket of a client that blocks all others: the head of its request must arrive before a deadline."""

    def __init__(self, client: socket.socket) -> None:
        """Take over the connection of `client`, which is detached."""
        super().__init__(client.family, client.type, client.proto, client.detach())
        self._deadline_s: float | None = time.monotonic() + HEAD_LIMIT_S

    def head_is_read(self) -> None:
        """Remove the deadline; from now on the client only has to read the answer in time."""
        self._deadline_s = None
        limit_answers(self)

    def shutdown(self, how: int) -> None:
        """Give a client that has the whole answer `LINGER_S` to close the connection, whatever it still sends."""
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
    """Give the task any time it needs, but limit how long a client may take to read a part of the answer."""
    client.settimeout(None)
    limit = struct.pack("ll", *divmod(round(ANSWER_LIMIT_S * 1_000_000), 1_000_000))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def is_disconnected(client: Any) -> bool:
    """Return whether the client has closed its side of the connection, so the answer would be lost.

    Args:
        client: a blocking `socket.socket` without a timeout, because a timeout would make this wait.
    """
    try:
        return bool(client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"")
    except BlockingIOError:
        return False
    except OSError:  # reset, or closed by this server
        return True


def disconnected(clients: Mapping[int, socket.socket]) -> list[int]:
    """Return the keys of the clients that have disconnected, with a single system call where `poll` can tell."""
    hang_up = getattr(select, "POLLRDHUP", None)
    if hang_up is None:
        return [key for key, client in clients.items() if is_disconnected(client)]
    poll, keys = select.poll(), {client.fileno(): key for key, client in clients.items()}
    closed_here = [key for key, client in clients.items() if client.fileno() < 0]
    for descriptor in keys:
        if descriptor >= 0:
            poll.register(descriptor, hang_up)
    return closed_here + [keys[descriptor] for descriptor, _ in poll.poll(0)]
