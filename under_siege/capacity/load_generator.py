"""The generator: the process that sends requests when they are due, and what it tells."""

import asyncio
import base64
import contextlib
import json
import math
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence

import numpy as np
import psutil
from numpy.typing import NDArray

from under_siege.errors import CaseFailedError
from under_siege.model.requests import Arrivals
from under_siege.monitors.resource_usage import Wakefulness, used_cpu_s
from under_siege.paths import script, server_environment
from under_siege.processes.managed_process import ManagedProcess, until
from under_siege.processes.process_output import Tail, reading_lines
from under_siege.targets.expectation import Expectation

Floats = NDArray[np.float64]

UTILISATIONS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94)
PERCENTS = (90.0, 95.0, 99.0)
DRAWN = 400  # of which one is taken
MOST_DRAWN = 200_000  # arrivals, of all that are drawn
FEWEST = 20  # arrivals, of which a percentile tells anything


def typical_arrivals(count: int, seed: Sequence[int]) -> Floats:
    """When so many come, in units of the mean time between two: rising, the first at 0 or later; the last before
    `count`."""
    draw = np.random.default_rng(seed)
    candidates = np.sort(draw.random((max(1, min(DRAWN, MOST_DRAWN // count)), count)), axis=1) * count
    if count < FEWEST:
        return np.asarray(candidates[0])
    return np.asarray(candidates[np.argmin(_atypical(candidates))])


def _atypical(candidates: Floats) -> Floats:
    """How far each one's percentiles are from those of an endless one, over all utilisations."""
    far = np.zeros(len(candidates))
    for busy in UTILISATIONS:
        waits = _waits(candidates, busy)
        for percent, waited in zip(PERCENTS, np.percentile(waits, PERCENTS, axis=1), strict=True):
            found = waited + busy
            far += np.log(found / (usual_wait(busy, percent) + busy)) ** 2
    return far


def _waits(arrivals: Floats, service: float) -> Floats:
    """How long each waits until its service begins (Lindley 1952, as a running maximum)."""
    work = service * np.arange(arrivals.shape[1]) - arrivals
    return np.asarray(work - np.minimum.accumulate(work, axis=1))


def usual_wait(busy: float, percent: float) -> float:
    """The percentile of the wait in M/D/1, for a unit of time between two arrivals: the exponential tail that it has.

    Exact in the limit; off by less than a hundredth beyond one time of service (Tijms, A First Course in Stochastic
    Models, 2003, section 9.6).
    """
    least, most = 1e-9, 50.0
    while most - least > 1e-9:  # the decay: busy * (e^x - 1) = x, for the time of service as unit
        middle = (least + most) / 2
        least, most = (least, middle) if busy * math.expm1(middle) > middle else (middle, most)
    share = (1 - busy) / (busy * math.exp(least) - 1)
    return busy * max(0.0, math.log(share / (1 - percent / 100)) / least)


COMMAND = [sys.executable, *script("open_load")]
START_S, END_S, LAST_LINES_S = 30.0, 5.0, 0.05  # what was never due has no line
_TOLD = re.compile(r"(\d{1,9}),(\d+\.\d+),(\d+\.\d+),([a-z]*)", re.ASCII)


class Generator:
    """It sends what it is told to, once, and fills the columns with what came of each request."""

    def __init__(self, process: ManagedProcess, errors: Tail) -> None:
        self._process, self._errors, self._awake = process, errors, Wakefulness(process.pid)
        self._due_s: Sequence[float] = ()
        self.ready, self.arrivals, self.done = False, Arrivals(), set[int]()

    def take(self, line: str, _arrived_s: float) -> None:
        """A line that it printed."""
        self.ready = self.ready or line == "ready"
        if told := _TOLD.fullmatch(line):
            number = int(told[1])
            self.done.add(number)
            columns = self.arrivals
            columns.due_s.append(self._due_s[number])
            columns.sent_s.append(float(told[2]))
            columns.ended_s.append(float(told[3]))
            columns.outcome.append(told[4])

    async def begin(
        self, url: str, expected: Expectation, begin_s: float, due_s: Sequence[float], *, keep_alive: bool
    ) -> None:
        """Tells it what to do; raises CaseFailedError: it can't."""
        if not await until(lambda: self.ready or self._process.ended(), START_S) or self._process.ended():
            raise CaseFailedError("generator_failed", f"the generator did not begin; {self._last_words()}")
        self._due_s = due_s
        order = {
            "url": url,
            "keep_alive": keep_alive,
            "status": expected.status,
            "body": expected.body,
            "headers": expected.headers,
            "answer": base64.b64encode(expected.answer).decode(),
            "begin_s": begin_s,
            "due_s": list(due_s),
        }
        stdin = self._process.process.stdin
        assert stdin is not None
        await asyncio.to_thread(stdin.write, json.dumps(order).encode() + b"\n")
        await asyncio.to_thread(stdin.flush)

    def look(self) -> None:
        """Sees how busy it is; raises CaseFailedError: it is gone."""
        self._awake.look()
        if self._process.ended():
            raise CaseFailedError("generator_failed", f"the generator ended; {self._last_words()}")

    def awake(self, last_s: float) -> float | None:
        """CPUs' worth of time in which it computed, or waited for a CPU."""
        return self._awake.cpus(last_s)

    def cpu_s(self) -> float | None:
        """What it has used since it was started."""
        with contextlib.suppress(psutil.Error):
            return used_cpu_s(psutil.Process(self._process.pid))
        return None

    async def end(self) -> None:
        """It gives up all that is not answered, and tells so."""
        stdin = self._process.process.stdin
        assert stdin is not None
        stdin.close()
        await until(self._process.ended, END_S)
        await until(lambda: len(self.done) >= len(self._due_s), LAST_LINES_S)

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._errors.text().splitlines() if line.strip()]
        return f"its last line: {lines[-1][:300]}" if lines else "it said nothing"


@contextlib.asynccontextmanager
async def generator() -> AsyncIterator[Generator]:
    """The generator, which is gone at the end."""
    process = ManagedProcess(COMMAND, environment=server_environment(), stdin=subprocess.PIPE, may_hide=False)
    errors = Tail(process.process.stderr)
    try:
        assert process.process.stdout is not None
        one = Generator(process, errors)
        with reading_lines(process.process.stdout.fileno(), one.take):
            yield one
    finally:
        await process.stop(grace_s=0)
