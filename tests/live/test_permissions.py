"""Processes that the bench is not allowed to signal, because they belong to another user."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest
from conftest import ROOT, wait_until

from under_siege.drill.injection import FOREIGN
from under_siege.host import managed_process
from under_siege.host.managed_process import ManagedProcess
from under_siege.record.record import CaseFailedError

PARENT = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'input()']); input()"
# A drill of a user who may not send signals to the server with this process id. Everything is imported before.
DRILL = """
import asyncio, os, sys
from types import SimpleNamespace
import psutil
from under_siege.drill.injection import kill_busiest, was_sent
from under_siege.drill.loaded_server import FaultContext
from under_siege.record.record import Incident

os.setgroups([])
os.setgid(65534)
os.setuid(65534)
server = SimpleNamespace(process=psutil.Process(int(sys.argv[1])), alive=lambda: True)
for inject in (kill_busiest, None):
    incident = Incident(server="x", title="x", values={}, fault="worker", round=1)
    context = FaultContext(server, None, None, None, None, 0, keep_alive=False, incident=incident)
    done = asyncio.run(inject(context)) if inject else was_sent(context, lambda: context.signal(9))
    print(done, incident.without)
"""


@pytest.fixture
def server() -> Iterator[psutil.Process]:
    """Start a process with a worker process, both of this user."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE) as process:
        main = psutil.Process(process.pid)
        try:
            wait_until(main.children)
            yield main
        finally:
            for one in (*main.children(), main):
                one.kill()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_the_drill_does_not_report_that_processes_of_another_user_were_killed(server: psutil.Process) -> None:
    command = [sys.executable, "-c", DRILL, str(server.pid)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.stdout.splitlines() == [f"False {FOREIGN}"] * 2, ran.stderr
    assert all(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in (server, *server.children()))


def test_a_server_that_the_bench_may_not_stop_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    process = ManagedProcess([sys.executable, "-c", "import time; time.sleep(600)"], environment=os.environ)

    def refuse(pid: int, number: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    try:
        with monkeypatch.context() as as_another_user:
            as_another_user.setattr(managed_process.os, "kill", refuse)
            with pytest.raises(CaseFailedError, match=rf"process {process.pid} belongs to another user.*sudo kill"):
                asyncio.run(process.stop())
    finally:
        os.kill(process.pid, signal.SIGKILL)
        asyncio.run(process.stop())
