"""Who listens where: an answer counts only if it comes from the processes that were started for it."""

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import psutil

from under_siege.errors import CaseFailedError
from under_siege.paths import HOST
from under_siege.processes.managed_process import offspring


def claimed_port(first: int) -> socket.socket:
    """Claims the first port from `first` on that nobody listens on, until the socket that this returns is closed.

    The socket is the UDP port of the same number: no server feels that, another run on this machine does and passes on,
    and the claim ends with this process, however it ends.
    """
    for port in range(first, 65536):
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            claim.bind((HOST, port))
            if port_is_free(port):
                return claim
        claim.close()
    raise CaseFailedError("no_port", f"every port from {first} on is taken")


def port_is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True


_NET = Path("/proc/net")
# Of a line of its tables (proc_pid_net(5)): the local port, the state "listens" and the socket's inode.
_LISTENS = re.compile(r"^ *\d+: \w+:(\w{4}) \w+:\w{4} 0A \S+ \S+ \S+ +\d+ +\d+ (\d+) ", re.ASCII | re.MULTILINE)
_SOCKET = re.compile(r"socket:\[(\d+)\]", re.ASCII)


def must_be_its_own(pid: int, port: int, supervisor_pid: int | None = None) -> None:
    """Returns if the process or one below it listens on the port, or nobody any more, or if the system doesn't tell.

    Args:
        supervisor_pid: of the process that inherits those that have left the server's session, where there is one.

    Raises:
        CaseFailedError: somebody else does.
    """
    try:
        if port in set(_ports(pid)) or port_is_free(port):
            return
        if supervisor_pid is not None and port in set(_ports(supervisor_pid)):
            return
    except psutil.Error:
        return
    told = where_it_listens(pid)
    raise CaseFailedError(
        "stranger",
        f"port {port} is answered by a process that was not started here{told or '; the server listens nowhere'}",
    )


def listening_processes(pid: int, port: int) -> int:
    """Return how many of the process and its descendants have a socket that listens on the port; at least 1."""
    try:
        return max(1, sum(found == port for found in _ports(pid)))
    except psutil.Error:
        return 1


def where_it_listens(pid: int) -> str:
    """`; it listens on port 5000 instead: ...`; empty where it listens nowhere, or the system doesn't tell."""
    try:
        ports = sorted(set(_ports(pid)))
    except psutil.Error:
        return ""
    if not ports:
        return ""
    listed = " and ".join(map(str, ports[:3]))
    return f"; it listens on port {listed} instead: does its command use {{host}} and {{port}}?"


def _ports(pid: int) -> Iterator[int]:
    """Those on which the process and all below it listen; raises psutil.Error."""
    root = psutil.Process(pid)
    listening = _listening()
    for process in (root, *offspring(pid)):
        try:
            if listening is None:
                found = process.net_connections(kind="tcp")
                yield from (one.laddr.port for one in found if one.status == psutil.CONN_LISTEN)
            else:
                yield from (listening[inode] for inode in _sockets(process.pid) if inode in listening)
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            if process == root:
                raise


def _listening() -> dict[str, int] | None:
    """The ports that anybody listens on, by the inodes of the sockets; None where Linux does not tell.

    Under siege there are thousands of other sockets, and psutil would understand every one of them.
    """
    try:
        tables = [(_NET / name).read_text() for name in ("tcp", "tcp6") if (_NET / name).exists()]
    except OSError:
        return None
    return {inode: int(port, 16) for table in tables for port, inode in _LISTENS.findall(table)} if tables else None


def _sockets(pid: int) -> Iterator[str]:
    """The inodes of those that the process has open; raises psutil.Error."""
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                if found := _SOCKET.fullmatch(str(descriptor.readlink())):
                    yield found[1]
    except PermissionError:
        raise psutil.AccessDenied(pid) from None
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
