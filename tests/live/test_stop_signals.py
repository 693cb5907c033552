"""Ctrl-C and SIGTERM stop a run within seconds, at any point, and keep the finished cases."""

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from bench_runs import server_path
from conftest import LIMIT_S, WAITING, bench_command, gone, wait_until
from plans import plan_of

from under_siege.host.managed_process import offspring, until_signal
from under_siege.measure import server
from under_siege.paths import HOST
from under_siege.record.record import CaseFailedError
from under_siege.record.result import load

# Each phase has a server that prolongs it, so that the signal arrives during the phase.
DURING = {"starting": "never_ready", "under siege": "slow_to_start", "stopping": "ignores_sigterm"}
GRACE_S, MARGIN_S = 5.0, 25.0  # graceful-shutdown period of a server; margin for busy machines


@pytest.mark.parametrize(
    ("moment", "by", "code"),
    [
        ("starting", signal.SIGINT, 130),
        ("under siege", signal.SIGTERM, 143),
        ("stopping", signal.SIGINT, 130),
    ],
)
def test_a_signal_stops_a_run_within_seconds_and_keeps_finished_cases(
    by: signal.Signals, code: int, moment: str, tmp_path: Path
) -> None:
    """When the signal arrives, the first case has finished and the second case is in the given phase."""
    second = DURING[moment]
    out = tmp_path / "r.json"
    time_s = {"starting": 1, "under siege": 5, "stopping": 4}[moment]  # long enough to be observed
    command = bench_command(
        "run", "2", server_path(second), "--rounds", "1", "--time", f"{time_s}s", "--users", "2", *WAITING
    )
    command += ["--seed", str(_seed_for(["2_async", second])), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(out.exists)
        family = wait_until(_at(moment, process.pid, second))
        signalled_s = time.monotonic()
        process.send_signal(by)
        process.send_signal(by)  # a second signal must not interrupt the cleanup
        output, errors = process.communicate()
    assert time.monotonic() - signalled_s < GRACE_S + MARGIN_S
    assert process.returncode == code, errors
    wait_until(lambda: all(gone(one) for one in family))
    assert "2_async" in output
    assert second not in output
    assert [record.server for record in load(out).records] == ["2_async"]
    assert "Traceback" not in errors


def _seed_for(order: list[str]) -> int:
    """Return a seed with which the cases run in this order, and the ceiling last."""
    for seed in range(100):
        plan = plan_of("2", server_path(order[1]), seed=seed)
        if [case.server for case in next(plan.in_order())] == [*order, "bare"]:
            return seed
    raise AssertionError


def _at(moment: str, bench: int, name: str) -> Callable[[], list[psutil.Process]]:
    """Return a function that returns the bench's processes while the server is in this phase, or else an empty list."""
    seen_siege = False

    def look() -> list[psutil.Process]:
        nonlocal seen_siege
        commands = {one: _command(one) for one in offspring(bench)}
        serving = any(f"{name}.py" in command for command in commands.values())
        measured_cases = serving and any("siegerc" in command for command in commands.values())
        seen_siege = seen_siege or measured_cases
        is_reached = {"starting": True, "under siege": measured_cases, "stopping": seen_siege and not measured_cases}[
            moment
        ]
        return list(commands) if serving and is_reached else []

    return look


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


class EndedProcess:
    """A server process that has ended."""

    pid, stdout, stderr = 1, None, None

    async def stop(self, grace_s: float) -> None:
        """Stop nothing."""


def test_a_port_still_taken_after_the_server_ended_causes_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_begun", lambda _: EndedProcess())
    monkeypatch.setattr(server, "Tail", lambda _: None)
    plan = plan_of("2")
    with socket.create_server((HOST, 0)) as other_listener:
        port = other_listener.getsockname()[1]
        one = server.Server(plan, plan.cases[0], f"http://{HOST}:{port}", port, SimpleNamespace(own_folder=""))
        with pytest.raises(
            CaseFailedError, match=f"port {port} is still in use after the server was stopped"
        ) as failed:
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
