"""A network namespace for one run: no ports that others have left in TIME_WAIT, and counters of its own.

This thread enters it (network_namespaces(7)), and so do a supervisor that it starts, the load tool and the servers.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from under_siege.processes.supervisor_client import another_supervisor

_CLONE_NEWNET = 0x40000000  # linux/sched.h
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1  # linux/sockios.h, linux/if.h
_SETTINGS = Path("/proc/sys/net/ipv4")  # those of the namespace of whoever opens them
_FIRST_PORT = 32_768
_OURS = Path("/proc/thread-self/ns/net")


@contextlib.contextmanager
def own_network(warn: Callable[[str], None], ports: int | None = None) -> Iterator[bool]:
    """A fresh loopback interface and nothing else while the body runs, or a warning; tells which.

    Args:
        ports: so many local ones, and none is given out again while it is in TIME_WAIT, as on macOS.
    """
    if not sys.platform.startswith("linux"):
        warn("own_network is something of Linux; the run goes on in the network that there is")
        yield False
        return
    before = os.open(_OURS, os.O_RDONLY)
    try:
        try:
            _call("unshare", _CLONE_NEWNET)
        except OSError as error:
            warn(
                f"own_network is not allowed here ({error.strerror}): run this as root, or within "
                "unshare -rn sh -c 'ip link set lo up; ...' where environments are made already; it goes on without"
            )
            yield False
            return
        try:
            _bring_up("lo")
            if ports is not None:
                (_SETTINGS / "ip_local_port_range").write_text(f"{_FIRST_PORT} {_FIRST_PORT + ports - 1}")
                (_SETTINGS / "tcp_tw_reuse").write_text("0")
            with another_supervisor():
                yield True
        finally:
            _call("setns", before, _CLONE_NEWNET)
    finally:
        os.close(before)


def _call(name: str, *numbers: int) -> None:
    """A system call, which `os` has from Python 3.12 on; raises OSError."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*numbers) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _bring_up(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("16sH14x", interface.encode(), 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, asked), 16)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", interface.encode(), flags | _IFF_UP))
