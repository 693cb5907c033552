"""Who listens where: an answer counts only if it comes from the processes that were started for it."""

from collections.abc import Iterator

import psutil

from common.harness.failures import CaseFailedError
from common.harness.ports import port_is_free


def must_be_its_own(pid: int, port: int, keeper_pid: int | None = None) -> None:
    """Returns if the process or one below it listens on the port, or nobody any more, or if the system doesn't tell.

    Args:
        keeper_pid: of the process that inherits those that have left the server's session, where there is one.

    Raises:
        CaseFailedError: somebody else does.
    """
    try:
        if port in set(_ports(pid)) or port_is_free(port):
            return
        if keeper_pid is not None and port in set(_ports(keeper_pid)):
            return
    except psutil.Error:
        return
    told = where_it_listens(pid)
    raise CaseFailedError(
        "stranger",
        f"port {port} is answered by a process that was not started here{told or '; the server listens nowhere'}",
    )


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
    for process in (root, *root.children(recursive=True)):
        try:
            for connection in process.net_connections(kind="tcp"):
                if connection.status == psutil.CONN_LISTEN:
                    yield connection.laddr.port
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            if process == root:
                raise
