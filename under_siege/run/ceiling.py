"""Measure the ceiling: the same users with no server, in every round."""

import math
import re
import time
from collections.abc import Callable
from pathlib import Path

from common.cpus import usable_cpus
from under_siege.model.case import Case
from under_siege.model.record import CaseFailedError, Record, append_row
from under_siege.monitors.machine_speed import watching_machine
from under_siege.monitors.probes import check_interval_s
from under_siege.monitors.resource_usage import sampling
from under_siege.paths import script, server_environment
from under_siege.processes.managed_process import CALM_LOOK_S, ManagedProcess, Tail, how_it_ended, reading_lines, until
from under_siege.run.plan import Length
from under_siege.targets.expectation import Expectation
from under_siege.targets.interpreter import Interpreter

# A process for each user would use more memory and give no higher ceiling. With one process per CPU, a CPU would idle
# while all threads of its process wait, even if threads of the other process wait for their GIL.
PROCESSES_PER_CPU = 2
START_S = 30.0  # seconds for starting Python and importing the task
SLOWER = 3  # times as long a task may take beside others as when it was tried
_CHECK = re.compile(r"check,(\d+\.\d+),(\d+\.\d+),\d{1,12}", re.ASCII)
_TASK = re.compile(r"(\d{1,6}),(\d+\.\d+),(\d+\.\d+),(\d{1,12})", re.ASCII)


def processes_for(users: int) -> int:
    """Return how many processes the users are spread over."""
    return min(users, PROCESSES_PER_CPU * usable_cpus())


def ready_limit_s(processes: int, expected: Expectation) -> float:
    """Return how long the processes may take to import the task and to perform it once.

    The CPUs are shared by the processes, and each of those imports and computes for itself.
    """
    in_line = math.ceil((processes + 1) / usable_cpus())  # with the checker's
    return START_S + in_line * START_S + SLOWER * (expected.task_s + in_line * expected.cpu_s)


async def compute_bare(
    case: Case,
    python: Interpreter,
    expected: Expectation,
    record: Record,
    length: Length,
    tell: Callable[[], None],
    folder: Path | None = None,
) -> None:
    """Let all users run the task for that time, and record every completed task.

    Raises:
        CaseFailedError: they could not begin, or ended by themselves.
    """
    lines, processes = _BaselineLines(record, length, tell), processes_for(case.users)
    options = ["--task", case.task, "--users", str(case.users), "--processes", str(processes)]
    options += ["--check-every", str(check_interval_s(expected.task_s))]
    started_s = time.monotonic()
    command = [python.path, *script("no_server_baseline"), *options]
    process = ManagedProcess(command, environment=server_environment(), folder=folder)
    errors = Tail(process.process.stderr)
    try:
        assert process.process.stdout is not None
        with reading_lines(process.process.stdout.fileno(), lines.take):
            limit_s = ready_limit_s(processes, expected)
            if not await until(lambda: lines.began_s > 0 or process.ended(), limit_s):
                raise CaseFailedError("not_ready", f"{case.users} users were not ready within {limit_s:.0f} s")
            record.ready_s = record.warm_s = time.monotonic() - started_s
            async with sampling(process.pid, record, lines.began_s, memory=False), watching_machine(record):
                await until(
                    lambda: process.ended() or time.monotonic() >= lines.began_s + length.end_s, math.inf, CALM_LOOK_S
                )
            if process.ended():
                raise await _death(process, errors)
            record.load_s = time.monotonic() - lines.began_s
    finally:
        stopping_s = time.monotonic()
        await process.stop(grace_s=0)
        record.stop_s = time.monotonic() - stopping_s


async def _death(process: ManagedProcess, errors: Tail) -> CaseFailedError:
    await until(lambda: not errors.reading(), 1.0)  # processes started by the task may keep it open
    lines = [line for line in errors.text().splitlines() if line.strip()]
    said = f"its last line: {lines[-1].strip()[:300]}" if lines else "it said nothing on stderr"
    return CaseFailedError("died", f"the bare case {how_it_ended(process.process.wait())}; {said}")


class _BaselineLines:
    """Records what `under_siege.subprocess_scripts.no_server_baseline` prints; the task prints other lines."""

    def __init__(self, record: Record, length: Length, tell: Callable[[], None]) -> None:
        self._record, self._length, self._tell = record, length, tell
        self.began_s = 0.0

    def take(self, line: str, _arrived_s: float) -> None:
        if begun := re.fullmatch(r"go,(\d+\.\d+)", line, re.ASCII):
            self._record.load_began_s = self.began_s = float(begun[1])
        elif checked := _CHECK.fullmatch(line):
            append_row(self._record.checks, self._at_s(checked[1]), self._at_s(checked[2]), "", "")
        elif done := _TASK.fullmatch(line):
            user, at_s = int(done[1]), self._at_s(done[3])
            took_s = round(float(done[3]) - float(done[2]), 6)
            append_row(self._record.transactions, at_s, took_s, 200, int(done[4]), user)
            self._length.answer(user, at_s)
            self._tell()

    def _at_s(self, clock_s: str) -> float:
        return round(float(clock_s) - self.began_s, 6)
