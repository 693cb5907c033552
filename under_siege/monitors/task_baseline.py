"""Run the task alone right before and after a siege."""

import contextlib
import math
import re
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

from under_siege.model.record import Record
from under_siege.paths import script, server_environment
from under_siege.processes.managed_process import ManagedProcess, until
from under_siege.processes.process_output import Tail, reading_lines
from under_siege.targets.interpreter import Interpreter

MOST_RUNS, ENOUGH_S = 3, 0.25  # runs at a time, or as many as begin within this time
FRESH_S = 1.0  # runs after one case that are this recent also count as runs before the next one


class BaselineWorker:
    """A process that has the task ready, and waits to be asked."""

    def __init__(self, process: ManagedProcess, patience_s: float) -> None:
        self._process, self._patience_s = process, patience_s
        self._lines: list[list[float]] = []
        self._lost = False  # it raised, ended or took too long once, and is not asked again
        self._last: list[list[float]] = []  # the runs of the last time
        self._last_of: Record | None = None

    def take(self, line: str, _arrived_s: float) -> None:
        """Parse a line that it printed."""
        if re.fullmatch(r"(\d+(\.\d+)?(e-\d+)?,){3}-?\d{1,6}", line, re.ASCII):  # anything else was printed by the task
            self._lines.append([float(word) for word in line.split(",")])

    def fresh_since_s(self, record: Record) -> float:
        """Return when the runs began that were made right before this case, after another one; infinite without any."""
        is_fresh = self._last and self._last_of is not record and time.monotonic() - self._last[0][0] < FRESH_S
        return self._last[0][0] if is_fresh else math.inf

    async def perform(self, record: Record) -> None:
        """Record some runs of the task, none if it can't any more; times are of `time.monotonic`."""
        if self.fresh_since_s(record) == math.inf:
            self._last = await self._runs()
        self._last_of = record
        for at_s, wall_s, cpu_s, cpu in self._last:
            record.alone_at_s.append(at_s)
            record.alone_wall_s.append(wall_s)
            record.alone_cpu_s.append(cpu_s)
            record.alone_on_cpu.append(int(cpu))

    async def _runs(self) -> list[list[float]]:
        began_s, runs = time.monotonic(), list[list[float]]()
        while len(runs) < MOST_RUNS and (not runs or time.monotonic() - began_s < ENOUGH_S):
            self._lost = self._lost or not await self._once()
            if self._lost:
                break
            runs.append(self._lines[-1])
        return runs

    async def _once(self) -> bool:
        before, stdin = len(self._lines), self._process.process.stdin
        assert stdin is not None
        try:
            stdin.write(b"\n")
            stdin.flush()
        except OSError:  # it has ended
            return False
        done = await until(lambda: len(self._lines) > before or self._process.ended(), self._patience_s, look_s=0.002)
        return done and len(self._lines) > before


@contextlib.asynccontextmanager
async def baseline_worker(
    task: str, python: Interpreter, patience_s: float, folder: Path | None = None
) -> AsyncIterator[BaselineWorker]:
    """Start a baseline worker for the task; stop it at the end."""
    command = [python.path, *script("baseline_worker"), task]
    process = ManagedProcess(command, environment=server_environment(), stdin=subprocess.PIPE, folder=folder)
    Tail(process.process.stderr)  # or it would have to wait when it has printed much
    try:
        assert process.process.stdout is not None
        one = BaselineWorker(process, patience_s)
        with reading_lines(process.process.stdout.fileno(), one.take):
            yield one
    finally:
        await process.stop(grace_s=0)
