"""Claim local ports, find the processes that listen on them, and enter a network namespace in which all ports are free.

Responses count only if they come from the processes that the bench started for the case.
"""

import contextlib
import ctypes
import fcntl
import os
import re
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from common.errors import BadInputError
from under_siege.host.managed_process import offspring
from under_siege.host.supervisor_client import another_supervisor
from under_siege.paths import HOST
from under_siege.record.record import CaseFailedError

_NET = Path("/proc/net")
# A line of the kernel's tables (proc_pid_net(5)): the local port, the remote port, the state, and the socket's inode.
_LINE = re.compile(r"^ *\d+: \w+:(\w{4}) \w+:(\w{4}) (0A|01) \S+ \S+ \S+ +\d+ +\d+ (\d+) ", re.ASCII | re.MULTILINE)
_CONNECTED, _LISTENS = 1, 10  # states
_SOCK_DIAG, _BY_FAMILY, _DUMP_REQUEST, _ERROR, _DONE = 4, 20, 0x301, 2, 3  # linux/netlink.h, linux/sock_diag.h
_SOCKET = re.compile(r"socket:\[(\d+)\]", re.ASCII)
_CLONE_NEWNET = 0x40000000  # linux/sched.h
_SIOCGIFFLAGS = 0x8913  # linux/sockios.h
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1  # linux/if.h
_SETTINGS = Path("/proc/sys/net/ipv4")  # settings of the network namespace of the thread that opens them
_FIRST_PORT = 32_768


def check_loopback() -> None:
    """Raise BadInputError if no process can connect to HOST, as in a new network namespace."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((HOST, 9))  # sends nothing
    except OSError as error:
        raise BadInputError(
            f"{HOST} can't be reached ({error.strerror}), because the network interface lo is down; bring it up with: "
            "ip link set lo up"
        ) from None


def claimed_port(first: int) -> socket.socket:
    """Claim the first free port, starting at `first`; the claim ends when the returned socket is closed.

    The socket is bound to the UDP port with the same number. Servers don't notice the claim, other runs on this
    machine skip the port, and the system ends the claim when this process ends.
    """
    for port in range(first, 65536):
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            claim.bind((HOST, port))
            if port_is_free(port):
                return claim
        claim.close()
    raise CaseFailedError("no_port", f"all ports from {first} on are in use")


def port_is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


def must_be_its_own(pid: int, port: int, supervisor_pid: int | None = None) -> None:
    """Raise CaseFailedError if the process that listens on the port is neither `pid` nor one of its descendants.

    If the system does not report which process listens, don't raise an error.

    Args:
        supervisor_pid: the process that inherits the orphans of the server; these are also allowed to listen.
    """
    try:
        if (
            listeners(pid, port)
            or port_is_free(port)
            or (supervisor_pid is not None and listeners(supervisor_pid, port))
        ):
            return
    except psutil.Error:
        return
    # A command such as `systemctl start` asks another program to start the server.
    elsewhere = (
        "; the server does not listen on any port; if another program starts it, start it first, and set only url"
    )
    where = where_it_listens(pid) or elsewhere
    raise CaseFailedError("stranger", f"another process, which this run did not start, listens on port {port}{where}")


def listening_processes(pid: int, port: int) -> int:
    """Return how many of `pid` and its descendants listen on the port; return 1 if none do, or if unknown."""
    try:
        return max(1, len(listeners(pid, port)))
    except psutil.Error:
        return 1


def listeners(pid: int, port: int) -> list[int]:
    """Return which of `pid` and its descendants listen on the port; raise psutil.Error if that is unknown."""
    return [process for process, its_port in _ports(pid) if its_port == port]


def where_it_listens(pid: int, wanted: int | None = None) -> str:
    """Return a hint (`; the server listens on port 5000 instead: ...`), or an empty string if no port is known."""
    try:
        ports = sorted({port for _, port in _ports(pid)})
    except psutil.Error:
        ports = []
    if wanted in ports:
        return f"; the server listens on port {wanted} at another address, such as ::1: expected {HOST}, as {{host}}"
    listed = " and port ".join(map(str, ports[:3]))
    return f"; the server listens on port {listed} instead: check {{host}} and {{port}} in its command" if ports else ""


def _ports(pid: int) -> list[tuple[int, int]]:
    """Return (process id, port) for each port on which `pid` or a descendant listens; raise psutil.Error if unknown."""
    listening = _listening()
    return [(process, listening[inode]) for process, inode in _sockets_of_tree(pid) if inode in listening]


def _sockets_of_tree(pid: int) -> list[tuple[int, str]]:
    """Return (process id, inode) for each socket of `pid` and its descendants; raise psutil.Error if unknown."""
    root, sockets = psutil.Process(pid), list[tuple[int, str]]()
    for process in (root, *offspring(pid)):
        try:
            sockets += [(process.pid, inode) for inode in _sockets(process.pid)]
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            if process == root:
                raise
    return sockets


def _listening() -> dict[str, int]:
    """Return the ports of all listening sockets by inode.

    psutil would be slow, because it would also parse the thousands of other sockets that a siege opens.
    """
    return _by_inode(_NET)[_LISTENS]


def sockets_of(pid: int) -> tuple[dict[str, int], dict[str, int]]:
    """Return the local ports of all listening and of all connected sockets by inode, as the process sees them.

    A process in a container has a network of its own. Raise OSError if the process has ended.
    """
    is_here = os.readlink("/proc/thread-self/ns/net") == os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115
    found = _by_inode(_NET if is_here else Path(f"/proc/{pid}/net"))
    return found[_LISTENS], found[_CONNECTED]


def _by_inode(net: Path) -> dict[int, dict[str, int]]:
    """Return the local ports of sockets by state and inode."""
    if net == _NET:  # after a load, the tables also have thousands of sockets in TIME_WAIT
        with contextlib.suppress(OSError):  # a sandbox may not have it
            return _from_kernel()
    found: dict[int, dict[str, int]] = {_LISTENS: {}, _CONNECTED: {}}
    for port, _, state, inode in _lines(net):
        found[int(state, 16)][inode] = int(port, 16)
    return found


def _from_kernel() -> dict[int, dict[str, int]]:
    """Return the same for the network of this thread (sock_diag(7)); raise OSError if the kernel refuses."""
    found: dict[int, dict[str, int]] = {_LISTENS: {}, _CONNECTED: {}}
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        for family in (socket.AF_INET, socket.AF_INET6):
            query = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, 0, 1 << _LISTENS | 1 << _CONNECTED)
            kernel.send(struct.pack("=IHHII", 16 + len(query), _BY_FAMILY, _DUMP_REQUEST, 0, 0) + query)
            kind = 0
            while kind != _DONE:
                data, start = kernel.recv(1 << 16), 0
                while start < len(data) and kind != _DONE:
                    length, kind = struct.unpack_from("=IH", data, start)
                    if kind == _ERROR:
                        raise OSError(-struct.unpack_from("=i", data, start + 16)[0], "sock_diag")
                    if kind == _BY_FAMILY:
                        state, port, inode = struct.unpack_from("!xBxxH62xI", data, start + 16)
                        found[state][str(socket.ntohl(inode))] = port
                    start += (length + 3) & ~3
    return found


def _lines(net: Path) -> Iterator[tuple[str, str, str, str]]:
    """Yield the ports, in hexadecimal digits, the state and the inode of each listening or connected socket."""
    for table in [(net / name).read_text() for name in ("tcp", "tcp6") if (net / name).exists()]:
        yield from _LINE.findall(table)


def holders(pid: int, port: int, client_port: int) -> list[int]:
    """Return which of `pid` and its descendants have accepted the connection of this client's port.

    Raises:
        psutil.Error: `pid` has ended, or belongs to another user.
    """
    wanted = f"{port:04X}", f"{client_port:04X}"
    inodes = {inode for *ports, _, inode in _lines(_NET) if tuple(ports) == wanted} - {"0"}
    return [process for process, inode in _sockets_of_tree(pid) if inode in inodes] if inodes else []


def _sockets(pid: int) -> Iterator[str]:
    """Yield the inodes of the process's open sockets; raise psutil.Error if they can't be read."""
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # the descriptor was just closed
                if match := _SOCKET.fullmatch(str(descriptor.readlink())):
                    yield match[1]
    except PermissionError:
        raise psutil.AccessDenied(pid) from None
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None


@contextlib.contextmanager
def own_network(warn: Callable[[str], None], ports: int | None = None) -> Iterator[bool]:
    """Enter a new network namespace with only a loopback interface; yield whether that succeeded, and warn if not.

    Only this thread and the processes of a new supervisor are in the namespace (network_namespaces(7)).

    Args:
        ports: number of local ports. If it is set, ports in TIME_WAIT are not reused.
    """
    with Path("/proc/thread-self/ns/net").open("rb") as before:
        try:
            _call("unshare", _CLONE_NEWNET)
        except OSError as error:
            warn(
                f"own_network is not allowed here ({error.strerror}); the run continues without it. To use it, run "
                "the bench as root or, once all environments are installed, in a namespace: "
                "unshare -rn sh -c 'ip link set lo up; ...'"
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
            _call("setns", before.fileno(), _CLONE_NEWNET)


def _call(name: str, *numbers: int) -> None:
    """Make a system call that `os` offers only in Python 3.12 and later; raise OSError if it fails."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*numbers) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _bring_up(interface: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14x", interface.encode(), 0)
        (flags,) = struct.unpack_from("H", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request), 16)
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", interface.encode(), flags | _IFF_UP))
