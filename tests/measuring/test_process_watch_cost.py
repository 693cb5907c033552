"""Watching each process of a server takes little CPU time, beside the samples of CPU time and memory."""

import os
import subprocess
import sys
import time

from under_siege.host.process_tree import descendants
from under_siege.host.resource_usage import SAMPLING_INTERVAL_S, UsageReader
from under_siege.host.server_processes import ProcessWatch
from under_siege.record.record import Record

PROCESSES, WATCHED_S = 30, 5.0
SERVER = f"""\
import os, socket, time
listener = socket.create_server(("127.0.0.1", 0))
ballast = [bytearray(1000) for _ in range(20_000)]
for _ in range({PROCESSES - 1}):
    if os.fork() == 0:
        ballast = [bytearray(1000) for _ in range(20_000)]
        break
print("ready", flush=True)
time.sleep(600)
"""


def test_watching_thirty_processes_takes_less_than_one_percent_of_a_cpu() -> None:
    record = Record(
        server="x", title="", values={}, round=1, began_at="", load_average=0.0, time_s=1.0, keep_alive=True
    )
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE) as server:
        try:
            for _ in range(PROCESSES):
                assert server.stdout.readline()
            reader, watch = UsageReader(server.pid, memory=True), ProcessWatch(record, None)
            began_s, used_s = time.monotonic(), 0.0
            while (at_s := time.monotonic() - began_s) < WATCHED_S:
                usages, before_s = reader.read(), time.thread_time()
                watch(at_s, usages)
                used_s += time.thread_time() - before_s
                time.sleep(SAMPLING_INTERVAL_S)
        finally:
            for pid in (*descendants(server.pid), server.pid):
                os.kill(pid, 9)
    assert len(record.processes) == PROCESSES
    assert used_s / WATCHED_S < 0.01
