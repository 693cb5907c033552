#!/usr/bin/env python3
"""Measure how much throughput a server loses while py-spy profiles it.

    .venv/bin/python scripts/profiler_overhead.py 2 3

A siege is divided into pairs of time windows: one with py-spy and one without, in random order. The loss is the mean
difference between the two rates of a pair, adjusted for CPU speed, which a speed probe measures 50 times a second. The
measurement takes about four minutes per server.
"""

import argparse
import asyncio
import contextlib
import math
import os
import pty
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from subprocess import DEVNULL, PIPE
from tempfile import TemporaryDirectory

import numpy as np
from scipy.stats import linregress, t

sys.path.insert(0, str(ROOT := Path(__file__).resolve().parent.parent))
from under_siege.host.helper_process import helper
from under_siege.host.machine_speed import SPEED_PROBE
from under_siege.host.managed_process import reading_lines
from under_siege.load.request import Load
from under_siege.load.siege import Siege
from under_siege.load.tool import LoadSpec
from under_siege.profile.profile_run import TIME_S
from under_siege.profile.sampler import PASSES, cpu_times_s, pass_s, processes_for, python_processes, record_command

WINDOW_S = pass_s(TIME_S)  # as long as a pass of `profile`, because attaching py-spy costs more than sampling
WARM_UP_S = 3.0
USERS = 25
PORT = 18765


class Observations:
    """The completion times of requests, and the samples of CPU speed."""

    def __init__(self) -> None:
        self.completed_s: list[float] = []
        self.speeds: list[tuple[float, float]] = []

    def take_response(self, line: str, arrived_s: float) -> None:
        if Siege.response_line.match(line):
            self.completed_s.append(arrived_s)

    def take_speed(self, sample: list[float]) -> None:
        at_s, _cpu, took_s = sample
        self.speeds.append((at_s, 1 / took_s))

    def logs(self, begin_s: float, end_s: float) -> tuple[float, float]:
        """Return the logarithms of the request rate and of the mean CPU speed between two times.

        The number of completed requests is interpolated, because a server may complete only 30 requests in this time.
        """
        first, last = np.interp([begin_s, end_s], self.completed_s, range(len(self.completed_s)))
        speeds = [speed for at_s, speed in self.speeds if begin_s <= at_s <= end_s]
        return math.log((last - first) / (end_s - begin_s)), math.log(np.mean(speeds))


@contextlib.asynccontextmanager
async def besieged(server: Path, folder: Path, time_s: float) -> AsyncIterator[tuple[int, Observations]]:
    """Start the server, the siege and the speed probe; yield the server's process id and the observations."""
    observed, spec = Observations(), LoadSpec(Load(keep_alive=True), USERS, time_s, f"http://127.0.0.1:{PORT}/")
    for name, content in Siege().files(spec).items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    terminal, theirs = pty.openpty()  # siege buffers its lines unless they go to a terminal
    options = ["--port", str(PORT)]
    process = await asyncio.create_subprocess_exec(sys.executable, server, *options, stdout=PIPE)
    assert process.stdout is not None
    await process.stdout.readline()  # printed once the server is listening
    siege = await asyncio.create_subprocess_exec(
        *Siege().command("siege", folder, spec), stdout=theirs, stderr=DEVNULL, env=os.environ | {"HOME": str(folder)}
    )
    try:
        async with helper(SPEED_PROBE, observed.take_speed, may_hide=False):
            with reading_lines(terminal, observed.take_response):
                yield process.pid, observed
    finally:
        for each in (siege, process):
            each.terminate()
            await each.wait()
        os.close(terminal)
        os.close(theirs)


def profile(pid: int, name: str, used_s: dict[int, float], folder: Path) -> float:
    """Sample the Python processes of a server in one pass, and return the CPU seconds that py-spy used."""
    pids = processes_for(name, pid, used_s)
    commands = [record_command(each, PASSES[name], WINDOW_S, folder / f"stacks-{each}") for each in pids]
    profilers = [subprocess.Popen(command, stdout=DEVNULL, stderr=DEVNULL) for command in commands]
    cpu_s = 0.0
    for profiler in profilers:
        _, status, usage = os.wait4(profiler.pid, 0)
        profiler.returncode = os.waitstatus_to_exitcode(status)
        cpu_s += usage.ru_utime + usage.ru_stime
    return cpu_s


async def main(server: str, pairs: int) -> None:
    """Print how much throughput one server loses while it is profiled, with the 95 % confidence interval."""
    script, passes = next((ROOT / "servers").glob(f"{server}_*.py")), list(PASSES)
    windows = list[dict[bool, tuple[float, float]]]()
    profiler_s = 0.0
    profiled_s = 0.0
    with TemporaryDirectory() as directory:
        async with besieged(script, folder := Path(directory), 3.0 * pairs * WINDOW_S) as (pid, observed):
            await asyncio.sleep(WARM_UP_S)
            used_s = cpu_times_s(python_processes(pid))
            for index in range(pairs):
                windows.append({})
                for is_profiled in random.sample([False, True], 2):
                    began_s = time.monotonic()
                    if is_profiled:
                        profiler_s += await asyncio.to_thread(profile, pid, passes[index % len(passes)], used_s, folder)
                        profiled_s += time.monotonic() - began_s
                    else:
                        await asyncio.sleep(WINDOW_S)
                    windows[-1][is_profiled] = began_s, time.monotonic()
            await asyncio.sleep(1)  # the interpolation needs a response after the last window
    logs = [{kind: observed.logs(*window) for kind, window in pair.items()} for pair in windows]
    rates, speeds = ([pair[True][column] - pair[False][column] for pair in logs] for column in (0, 1))
    # The regression estimates how the rate depends on the speed; the intercept is the loss at equal speed.
    line = linregress(speeds, rates)
    half = float(t.ppf(0.975, pairs - 2)) * line.intercept_stderr
    low, middle, high = (100 * math.expm1(line.intercept + error) for error in (-half, 0.0, half))
    print(
        f"{script.stem}: {middle:+.1f} % throughput while profiled (95 % CI {low:+.1f} to {high:+.1f}; {pairs} pairs); "
        f"py-spy uses {100 * profiler_s / profiled_s:.1f} % of a CPU",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("servers", nargs="*", default=["2", "3", "4"], help="server numbers (default: 2 3 4)")
    parser.add_argument("--pairs", type=int, default=18)
    arguments = parser.parse_args()
    for each in arguments.servers:
        asyncio.run(main(each, arguments.pairs))
