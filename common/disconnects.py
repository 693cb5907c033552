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
    """The socket of a client for whom all others wait: its head has to come soon, in however many pieces it does."""

    def __init__(self, client: socket.socket) -> None:
        """Takes the place of the other one."""
        super().__init__(client.family, client.type, client.proto, client.detach())
        self._until_s: float | None = time.monotonic() + HEAD_LIMIT_S

    def head_is_read(self) -> None:
        """From now on it may be silent, and has to take the answer."""
        self._until_s = None
        limit_answers(self)

    def shutdown(self, how: int) -> None:
        """Whoever has the whole answer has little time to close the connection, whatever it still sends."""
        self._until_s = time.monotonic() + LINGER_S
        super().shutdown(how)

    def recv(self, *arguments: Any) -> bytes:
        """As any, as long as there is time."""
        self._keep_time()
        return super().recv(*arguments)

    def recv_into(self, *arguments: Any) -> int:
        """As any, as long as there is time."""
        self._keep_time()
        return super().recv_into(*arguments)

    def _keep_time(self) -> None:
        if self._until_s is None:
            return
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("the client takes too long")
        self.settimeout(left_s)


def limit_answers(client: socket.socket) -> None:
    """Its head has been read, the task may take its time; who then takes nothing of the answer is not waited for."""
    client.settimeout(None)
    limit = struct.pack("ll", *divmod(round(ANSWER_LIMIT_S * 1_000_000), 1_000_000))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def has_left(client: Any) -> bool:
    """Whether it has closed its side of the connection: nobody is there to read an answer.

    Args:
        client: its socket, as Python has it, without a time limit: with one it would wait for so long.
    """
    try:
        return bool(client.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b"")
    except BlockingIOError:
        return False
    except OSError:  # reset, or closed on our side
        return True


def who_has_left(clients: Mapping[int, socket.socket]) -> list[int]:
    """Those of them that have, by their keys. One look at all, where the system can: each look may cost the GIL."""
    hang_up = getattr(select, "POLLRDHUP", None)
    if hang_up is None:
        return [key for key, client in clients.items() if has_left(client)]
    look, keys = select.poll(), {client.fileno(): key for key, client in clients.items()}
    closed = [key for key, client in clients.items() if client.fileno() < 0]  # on our side, because it has left
    for descriptor in keys:
        if descriptor >= 0:
            look.register(descriptor, hang_up)
    return closed + [keys[descriptor] for descriptor, _ in look.poll(0)]
