"""Ctrl-C and SIGTERM stop a run within seconds, at any point, and keep the finished cases."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import scripted_server
from conftest import LIMIT_S, bench_command, gone, wait_until
from leftover_processes import commands
from plans import plan_of

from under_siege.host.managed_process import offspring, until_signal
from under_siege.measure import server
from under_siege.measure.server_output import ServerOutput
from under_siege.paths import HOST
from under_siege.record.record import CaseFailedError
from under_siege.record.result import load

SUITE = f"""
[load]
users = 2
time = "1s"
path = "/slow/0.05"
[ping]
path = "/ping"
ready_within = 600
[servers.served]
command = '''sh -c "BEFORE exec {sys.executable} {scripted_server.__file__} {{port}}"'''
"""
# What the server does before it starts. Each phase lasts so long that the signal arrives during the phase.
DURING = {
    "starting": "[ -e r.json ] && exec sleep 600;",  # once a case has finished
    "stopping": "trap '' TERM;",
}


@dataclass
class Look:
    """Whether the bench is in a phase of its second case; `family` are the processes of the bench."""

    bench: int
    out: Path
    phase: str
    has_loaded: bool = False
    family: list[psutil.Process] | None = None

    def __call__(self) -> bool:
        self.family = offspring(self.bench)
        seen = commands(self.family)
        is_loaded = self.out.exists() and "siegerc" in seen
        self.has_loaded = self.has_loaded or is_loaded
        if self.phase == "starting":
            return "sleep 600" in seen.splitlines()
        return self.has_loaded and not is_loaded and "scripted_server" in seen


@pytest.mark.parametrize(("phase", "by", "code"), [("starting", signal.SIGINT, 130), ("stopping", signal.SIGTERM, 143)])
def test_a_signal_stops_a_run_and_keeps_finished_cases(
    phase: str, by: signal.Signals, code: int, tmp_path: Path
) -> None:
    """test_suite_interrupted.py sends signals under load."""
    (tmp_path / "suite.toml").write_text(SUITE.replace("BEFORE", DURING[phase]))
    command = bench_command("run", "suite.toml", "--rounds", "9", "--out", "r.json")
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        look = Look(process.pid, tmp_path / "r.json", phase)
        wait_until(look)
        process.send_signal(by)
        process.send_signal(by)  # a second signal must not interrupt the cleanup
        output, errors = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    wait_until(lambda: all(map(gone, look.family)))
    records = load(tmp_path / "r.json").records
    assert {(record.server, record.failure) for record in records} == {("served", None)}
    assert len(records) < 9
    assert "served" in output


def test_a_run_that_is_killed_leaves_all_finished_cases_in_its_file(tmp_path: Path) -> None:
    third_waits = "[ $(grep -c . r.json) = 2 ] && exec sleep 600;"
    (tmp_path / "suite.toml").write_text(SUITE.replace("BEFORE", third_waits))
    command = bench_command("run", "suite.toml", "--rounds", "9", "--out", "r.json")
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        look = Look(process.pid, tmp_path / "r.json", "starting")
        wait_until(look)
        process.kill()
    wait_until(lambda: all(map(gone, look.family)))
    result = load(tmp_path / "r.json")
    assert [(record.round, record.failure) for record in result.records] == [(1, None), (2, None)]


class EndedProcess:
    """A server process that has ended."""

    pid, stdout, stderr = 1, None, None

    async def stop(self, grace_s: float) -> None:
        """Stop nothing."""


def test_a_port_still_taken_after_the_server_ended_causes_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_begun", lambda _: EndedProcess())
    monkeypatch.setattr(server, "ServerOutput", lambda _: ServerOutput(None))
    plan = plan_of("2")
    with socket.create_server((HOST, 0)) as other_listener:
        port = other_listener.getsockname()[1]
        one = server.Server(plan, plan.cases[0], f"http://{HOST}:{port}", port, SimpleNamespace(own_folder=""))
        with pytest.raises(CaseFailedError, match=str(port)) as failed:
            asyncio.run(one.stop())
        assert failed.value.code == "port_kept"
    asyncio.run(one.stop())


def test_a_second_signal_does_not_interrupt_the_cleanup() -> None:
    cleaned = False

    async def work() -> None:
        nonlocal cleaned
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(LIMIT_S)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)
                for _ in range(10):  # let the event loop handle the signal
                    await asyncio.sleep(0)
            cleaned = True

    assert until_signal(work()) == signal.SIGINT
    assert cleaned
