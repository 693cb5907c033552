"""Open the socket that a server listens on, and print the line that announces it."""

import os
import select
import socket
import struct
import sys
from typing import NoReturn

from common.options import Options, quit_with
from common.server_contract import BACKLOG

TURNS_TO_BEGIN = 5  # iterations of the event loop from accepting a connection to running its request
_UNACKED = 24  # where `struct tcp_info` of linux/tcp.h has, for a socket that listens, how many wait to be accepted


def listening_socket(options: Options) -> socket.socket:
    """A socket that listens where the options say; ends the server with one line if that can't be."""
    try:
        listener = socket.create_server((options.host, options.port), family=_family(options), backlog=BACKLOG)
    except (OSError, UnicodeError) as error:
        _quit_over(options, error)
    listener.setblocking(False)
    return listener


def must_be_free(options: Options) -> None:
    """The same where nobody can listen, for a server that has processes to start before it does."""
    try:
        with socket.socket(_family(options)) as unused:
            unused.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            unused.bind((options.host, options.port))
    except (OSError, UnicodeError) as error:
        _quit_over(options, error)


def _family(options: Options) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in options.host else socket.AF_INET


def _quit_over(options: Options, error: OSError | UnicodeError) -> NoReturn:
    reason = _reason(error)
    quit_with(f"can't listen on {options.host} port {options.port}: {reason}; try another --host or --port")


def _reason(error: OSError | UnicodeError) -> str:
    if isinstance(error, socket.gaierror) or not isinstance(error, OSError) or not error.errno:
        return getattr(error, "strerror", None) or str(error)
    return os.strerror(error.errno)  # without what Python adds to it: the address again


def announce(options: Options, listener: socket.socket) -> None:
    """The only line that a server prints."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    port = listener.getsockname()[1]
    print(f"{options.name}: {options.task} on http://{host}:{port}/", flush=True)  # noqa: T201


def close_the_door(listener: socket.socket) -> None:
    """Nobody new comes in; who waits at the door can still be accepted, where closing the socket would reset them."""
    listener.listen(0)


def somebody_waits(listener: socket.socket) -> bool:
    """Whether there is a connection to accept."""
    look = select.poll()
    look.register(listener, select.POLLIN)
    return bool(look.poll(0))


def waiting_in_kernel(listener: socket.socket) -> int:
    """How many connections wait to be accepted; 0 where the system does not tell."""
    if sys.platform != "linux":
        return 0
    told = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _UNACKED + 4)
    return int(struct.unpack_from("I", told, _UNACKED)[0])


async def let_in_who_waits(listener: socket.socket) -> None:
    """Returns when nobody waits at the door, or when it has been looked at often enough."""
    import asyncio  # those that have a loop have it anyway; for the others it takes longer than all else here

    close_the_door(listener)
    looks = 10
    while looks and somebody_waits(listener):
        await asyncio.sleep(0)
        looks -= 1
    for _ in range(TURNS_TO_BEGIN):
        await asyncio.sleep(0)
