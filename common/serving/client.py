"""The client of a request: whether it is still there, and how long it may take to say what it wants."""

import select
import socket
import struct
from collections.abc import Mapping
from typing import Any

HEAD_LIMIT_S = 5.0  # for the head of a request; who is silent for longer is not waited for
ANSWER_LIMIT_S = 5.0  # for each part of an answer, where one client keeps all others waiting


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
