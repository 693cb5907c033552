"""The client of a request: whether it is still there, and how long it may take to say what it wants."""

import socket
from typing import Any

HEAD_LIMIT_S = 5.0  # for the head of a request; who is silent for longer is not waited for


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
