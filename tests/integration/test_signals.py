"""Ctrl-C and SIGTERM: they end a run within seconds, at whatever point it is, and lose nothing that was done."""

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
from besieging import hostile
from conftest import LIMIT_S, WAITING, bench_command, gone, wait_until
from planned import plan_of

from under_siege.environments.services import Services
from under_siege.errors import CaseFailedError
from under_siege.model.record import load
from under_siege.paths import HOST
from under_siege.processes.managed_process import offspring, until_signal
from under_siege.run import server
from under_siege.run.plan import new_record

# The server that is running when the signal comes, which makes that moment last.
DURING = {"starting": "never_ready", "under siege": "slow_to_start", "stopping": "clings_to_its_port"}
GRACE_S, BESIDES_S = 5.0, 25.0  # of a server that does not listen; and for everything else on a busy machine


@pytest.mark.parametrize(
    ("moment", "by", "code"),
    [
        ("starting", signal.SIGINT, 130),
        ("under siege", signal.SIGTERM, 143),
        ("stopping", signal.SIGINT, 130),
    ],
)
def test_a_signal_stops_everything_within_seconds_and_keeps_what_is_done(
    by: signal.Signals, code: int, moment: str, tmp_path: Path
) -> None:
    """The first case is done when the signal comes; the second one is at different points of its life."""
    second = DURING[moment]
    out = tmp_path / "r.json"
    time_s = {"starting": 1, "under siege": 5, "stopping": 4}[moment]  # so long that it is not missed
    command = bench_command(
        "run", "2", hostile(second), "--rounds", "1", "--time", f"{time_s}s", "--users", "2", *WAITING
    )
    command += ["--seed", str(_seed_for(["2_async", second])), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(out.exists)
        family = wait_until(_at(moment, process.pid, second))
        signalled_s = time.monotonic()
        process.send_signal(by)
        process.send_signal(by)  # impatience must not interrupt the cleaning up
        output, errors = process.communicate()
    assert time.monotonic() - signalled_s < GRACE_S + BESIDES_S
    assert process.returncode == code, errors
    wait_until(lambda: all(gone(one) for one in family))
    assert "2_async" in output
    assert second not in output
    assert [record.server for record in load(out).records] == ["2_async"]
    assert "Traceback" not in errors


def _seed_for(order: list[str]) -> int:
    """One with which the cases come in this order, and the bare one at last."""
    for seed in range(100):
        plan = plan_of("2", hostile(order[1]), seed=seed)
        if [case.server for case in next(plan.in_order())] == [*order, "bare"]:
            return seed
    raise AssertionError


def _at(moment: str, bench: int, name: str) -> Callable[[], list[psutil.Process]]:
    """What finds all that the bench has started, once the server has come to that point of its life."""
    seen_siege = False

    def look() -> list[psutil.Process]:
        nonlocal seen_siege
        commands = {one: _command(one) for one in offspring(bench)}
        serving = any(f"{name}.py" in command for command in commands.values())
        besieged = serving and any("siegerc" in command for command in commands.values())
        seen_siege = seen_siege or besieged
        come = {"starting": True, "under siege": besieged, "stopping": seen_siege and not besieged}[moment]
        return list(commands) if serving and come else []

    return look


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


class KeepsItsPort:
    """A server that is gone, while somebody else has taken its port."""

    def __init__(self, *_) -> None:
        """Nothing is started."""

    async def stop(self) -> None:
        raise CaseFailedError("port_kept", "the port is still taken")

    def last_words(self) -> str:
        return ""


@pytest.mark.parametrize(("cancelled", "raised"), [(True, asyncio.CancelledError), (False, CaseFailedError)])
def test_a_port_that_is_kept_does_not_stand_in_the_way_of_a_signal(cancelled, raised, monkeypatch) -> None:
    monkeypatch.setattr(server, "Server", KeepsItsPort)
    plan = plan_of("2")
    case = plan.cases[0]

    async def run() -> None:
        async with server.running(plan, case, new_record(plan, case, 1.0, 1), Services()):
            if cancelled:
                asyncio.current_task().cancel()
            await asyncio.sleep(0)

    with pytest.raises(raised):
        asyncio.run(run())


class Gone:
    """What was started, and has ended; its port is another matter."""

    pid, process = 1, SimpleNamespace(stdout=None, stderr=None)

    async def stop(self, grace_s: float) -> None:
        """Nothing is left to be ended."""


def test_a_server_has_kept_its_port_if_that_is_still_taken_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_begun", lambda _: Gone())
    monkeypatch.setattr(server, "Tail", lambda _: None)
    plan = plan_of("2")
    with socket.create_server((HOST, 0)) as somebody_else:
        port = somebody_else.getsockname()[1]
        one = server.Server(plan, plan.cases[0], f"http://{HOST}:{port}", port, SimpleNamespace(own_folder=""))
        with pytest.raises(CaseFailedError, match=f"port {port} is still taken after the server was ended") as failed:
            asyncio.run(one.stop())
        assert failed.value.code == "port_kept"
    asyncio.run(one.stop())


def test_only_the_first_signal_cancels_the_work() -> None:
    """Or impatience would interrupt the cleaning up."""
    cleaned = False

    async def work() -> None:
        nonlocal cleaned
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(LIMIT_S)
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(os.getpid(), number)
                for _ in range(10):  # turns of the loop, in which it hears of that
                    await asyncio.sleep(0)
            cleaned = True

    assert until_signal(work()) == signal.SIGINT
    assert cleaned
