"""The watch of a server's processes: sockets, connections, starts and ends of real processes."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from conftest import wait_until

from under_siege.host import ports
from under_siege.host.process_tree import descendants
from under_siege.host.resource_usage import UsageReader
from under_siege.host.server_processes import ProcessWatch
from under_siege.record.record import Record

# It accepts some connections, forks a child that inherits them, and says so.
FORKING = """\
import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
kept = [listener.accept()[0] for _ in range(3)]
if os.fork() == 0:
    time.sleep(60)
print("forked", flush=True)
time.sleep(60)
"""


@contextlib.contextmanager
def forking() -> Iterator[tuple[int, int]]:
    """Yield the process id and the port of the server, while it has three connections."""
    with (
        subprocess.Popen([sys.executable, "-c", FORKING], stdout=subprocess.PIPE, text=True) as server,
        contextlib.ExitStack() as connections,
    ):
        try:
            port = int(server.stdout.readline())
            for _ in range(3):
                connections.enter_context(socket.create_connection(("127.0.0.1", port)))
            assert server.stdout.readline() == "forked\n"
            yield server.pid, port
        finally:
            for pid in (*descendants(server.pid), server.pid):
                os.kill(pid, signal.SIGKILL)


def new_record() -> Record:
    values = {"server": "x", "title": "", "values": {"users": 3}, "round": 1, "began_at": "", "load_average": 0.0}
    return Record(**values, time_s=1.0, keep_alive=True)


def test_inherited_connections_count_once_and_an_end_is_noted() -> None:
    record, began_s = new_record(), time.monotonic()
    with forking() as (pid, port):
        reader, watch = UsageReader(pid, memory=True), ProcessWatch(record, port)
        watch(time.monotonic() - began_s, reader.read())
        parent, child = record.processes
        assert [process.is_listening for process in record.processes] == [True, True]
        assert [process.samples.connections for process in record.processes] == [[3], [0]]
        assert child.parent == parent.pid == pid
        assert all(process.memory_start_bytes > 0 for process in record.processes)
        assert parent.began_s <= child.began_s < time.monotonic() - began_s
        os.kill(child.pid, signal.SIGKILL)
        wait_until(lambda: all(usage.is_zombie or usage.pid != child.pid for usage in reader.read()))
        watch(time.monotonic() - began_s, reader.read())
        assert child.ended_s is not None
        assert parent.ended_s is None


def test_sockets_are_read_again_only_after_a_pause() -> None:
    record = new_record()
    with forking() as (pid, port):
        reader, watch = UsageReader(pid, memory=False), ProcessWatch(record, port)
        for _ in range(2):
            watch(0.0, reader.read())
        assert record.processes[0].samples.connections == [3, -1]


def test_the_kernel_reports_the_same_sockets_as_its_tables() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_server(("::1", 0), family=socket.AF_INET6) as other,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as accepted,
    ):
        own = {str(os.fstat(each.fileno()).st_ino) for each in (listener, other, client, accepted)}
        answered, listed = (
            {state: {inode: port for inode, port in found.items() if inode in own} for state, found in each.items()}
            for each in (ports._from_kernel(), ports._by_inode(Path("/proc/self/net")))
        )
        assert answered == listed
        assert {len(found) for found in answered.values()} == {2}
