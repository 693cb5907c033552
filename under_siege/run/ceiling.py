"""Measure the ceiling: the same users with no server, in every round."""

import math
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

from common.cpus import usable_cpus
from under_siege.errors import CaseFailedError
from under_siege.model.case import Case
from under_siege.model.record import Record
from under_siege.monitors.answer_check import interval_s
from under_siege.monitors.cpu_speed_probe import watching_machine
from under_siege.monitors.resource_usage import sampling
from under_siege.paths import script, server_environment
from under_siege.processes.managed_process import CALM_LOOK_S, ManagedProcess, until
from under_siege.processes.process_output import Tail, reading_lines
from under_siege.run.duration import Length
from under_siege.targets.expectation import Expectation
from under_siege.targets.interpreter import Interpreter

# A process for each user would use more memory and give no higher ceiling. With one process per CPU, a CPU would idle
# while all threads of its process wait, even if threads of the other process wait for their GIL.
PROCESSES_PER_CPU = 2
START_S = 30.0  # for a Python to start, and for the imports of a task, which may be heavy
SLOWER = 3  # than when it was tried a task may be, beside others


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
    """Let all users compute for that length and record every task that was done.

    Raises:
        CaseFailedError: they could not begin, or ended by themselves.
    """
    bare = _Bare(record, length, tell)
    processes = processes_for(case.users)
    started_s = time.monotonic()
    words = _words(python, case, processes, interval_s(expected.task_s))
    process = ManagedProcess(words, environment=server_environment(), folder=folder)
    errors = Tail(process.process.stderr)
    try:
        assert process.process.stdout is not None
        with reading_lines(process.process.stdout.fileno(), bare.take):
            limit_s = ready_limit_s(processes, expected)
            if not await until(lambda: bare.began_s > 0 or process.ended(), limit_s):
                raise CaseFailedError("not_ready", f"{case.users} users were not ready within {limit_s:.0f} s")
            record.ready_s = record.warm_s = time.monotonic() - started_s
            async with sampling(process.pid, record, bare.began_s, memory=False), watching_machine(record):
                await until(
                    lambda: process.ended() or time.monotonic() >= bare.began_s + length.end_s, math.inf, CALM_LOOK_S
                )
            if process.ended():
                raise await _death(process, errors)
            record.load_s = time.monotonic() - bare.began_s
    finally:
        stopping_s = time.monotonic()
        await process.stop(grace_s=0)
        record.stop_s = time.monotonic() - stopping_s


def _words(python: Interpreter, case: Case, processes: int, check_every_s: float) -> list[str]:
    options = ["--task", case.task, "--users", str(case.users), "--processes", str(processes)]
    return [
        python.path,
        *script("no_server_baseline"),
        *options,
        "--check-every",
        str(check_every_s),
    ]


async def _death(process: ManagedProcess, errors: Tail) -> CaseFailedError:
    await until(lambda: not errors.reading(), 1.0)  # what the task has started may keep it open
    status = process.process.wait()
    how = f"ended with exit code {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"
    lines = [line for line in errors.text().splitlines() if line.strip()]
    said = f"its last line: {lines[-1].strip()[:300]}" if lines else "it said nothing on stderr"
    return CaseFailedError("died", f"the bare case {how}; {said}")


class _Bare:
    """Takes in what `under_siege.subprocess_scripts.no_server_baseline` prints."""

    def __init__(self, record: Record, length: Length, tell: Callable[[], None]) -> None:
        self._record, self._length, self._tell = record, length, tell
        self.began_s = 0.0

    def take(self, line: str, _arrived_s: float) -> None:
        if began := re.fullmatch(r"go,(\d+\.\d+)", line, re.ASCII):
            self._record.load_began_s = self.began_s = float(began[1])
        elif checked := re.fullmatch(r"check,(\d+\.\d+),(\d+\.\d+),\d{1,12}", line, re.ASCII):
            self._check_done(float(checked[1]), float(checked[2]))
        elif told := re.fullmatch(r"(\d{1,6}),(\d+\.\d+),(\d+\.\d+),(\d{1,12})", line, re.ASCII):
            self._task_done(int(told[1]), float(told[2]), float(told[3]), int(told[4]))
        # anything else was printed by the task itself

    def _check_done(self, began_s: float, ended_s: float) -> None:
        checks = self._record.checks
        checks.sent_s.append(round(began_s - self.began_s, 6))
        checks.answered_s.append(round(ended_s - self.began_s, 6))
        checks.code.append("")
        checks.problem.append("")

    def _task_done(self, user: int, began_s: float, ended_s: float, size_bytes: int) -> None:
        at_s = round(ended_s - self.began_s, 6)
        columns = self._record.transactions
        columns.finished_s.append(at_s)
        columns.took_s.append(round(ended_s - began_s, 6))
        columns.status.append(200)
        columns.size_bytes.append(size_bytes)
        columns.user.append(user)
        self._length.answer(user, at_s)
        self._tell()
