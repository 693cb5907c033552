"""Offer a server one rate of arrivals from a load generator of its own, and record the outcome, including failures."""

import asyncio
import base64
import contextlib
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass

import aiohttp
import numpy as np
import psutil
from numpy.typing import NDArray
from scipy.special import lambertw

from common.errors import one_line
from under_siege.capacity.step_metrics import percentile_of
from under_siege.environments.services import Services
from under_siege.errors import CaseFailedError
from under_siege.http_client import client
from under_siege.model.case import Case
from under_siege.model.record import Arrivals, Failure, RateStep
from under_siege.model.threshold import Goal
from under_siege.monitors.cpu_speed_probe import watching_machine
from under_siege.monitors.ping import probing
from under_siege.monitors.resource_usage import Wakefulness, sampling, used_cpu_s
from under_siege.paths import script, server_environment
from under_siege.processes.managed_process import ManagedProcess, until
from under_siege.processes.process_output import Tail, reading_lines
from under_siege.run.plan import Plan
from under_siege.run.server import Server, running
from under_siege.run.warm_up import warm_up
from under_siege.targets.expectation import Expectation

Floats = NDArray[np.float64]

UTILISATIONS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94)
_PERCENTS = (90.0, 95.0, 99.0)
DRAWN = 400  # of which one is taken
MOST_DRAWN = 200_000  # arrivals, of all that are drawn
FEWEST = 20  # arrivals that a percentile needs


def typical_arrivals(count: int, seed: Sequence[int]) -> Floats:
    """Return when so many come, in units of the mean time between two: rising, the first at 0 or later; the last before
    `count`."""
    draw = np.random.default_rng(seed)
    candidates = np.sort(draw.random((max(1, min(DRAWN, MOST_DRAWN // count)), count)), axis=1) * count
    if count < FEWEST:
        return np.asarray(candidates[0])
    return np.asarray(candidates[np.argmin(_atypical(candidates))])


def _atypical(candidates: Floats) -> Floats:
    """Return how far each one's percentiles are from those of an endless one, over all utilisations."""
    far = np.zeros(len(candidates))
    for busy in UTILISATIONS:
        waits = _waits(candidates, busy)
        for percent, waited in zip(_PERCENTS, np.percentile(waits, _PERCENTS, axis=1), strict=True):
            found = waited + busy
            far += np.log(found / (usual_wait(busy, percent) + busy)) ** 2
    return far


def _waits(arrivals: Floats, service: float) -> Floats:
    """Return how long each waits until its service begins (Lindley 1952, as a running maximum)."""
    work = service * np.arange(arrivals.shape[1]) - arrivals
    return np.asarray(work - np.minimum.accumulate(work, axis=1))


def usual_wait(busy: float, percent: float) -> float:
    """The percentile of the wait in M/D/1, for a unit of time between two arrivals: the exponential tail that it has.

    Exact in the limit; off by less than a hundredth beyond one time of service (Tijms, A First Course in Stochastic
    Models, 2003, section 9.6).
    """
    decay = -float(lambertw(-busy * math.exp(-busy), -1).real) - busy  # busy * (e^decay - 1) = decay
    share = (1 - busy) / (busy * math.exp(decay) - 1)
    return busy * max(0.0, math.log(share / (1 - percent / 100)) / decay)


COMMAND = [sys.executable, *script("open_load")]
START_S, END_S, LAST_LINES_S = 30.0, 5.0, 0.05  # requests that were never due have no line
_TOLD = re.compile(r"(\d{1,9}),(\d+\.\d+),(\d+\.\d+),([a-z]*)", re.ASCII)


class Generator:
    """A load-generator process that sends one series of requests; `arrivals` records each outcome."""

    def __init__(self, process: ManagedProcess, errors: Tail) -> None:
        self._process, self._errors, self._awake = process, errors, Wakefulness(process.pid)
        self._due_s: Sequence[float] = ()
        self.ready, self.arrivals, self.done = False, Arrivals(), set[int]()

    def take(self, line: str, _arrived_s: float) -> None:
        """Parse a line of its output."""
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
        """Send it the requests and their times; raise CaseFailedError if it does not start."""
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
        """Sample its CPU use; raise CaseFailedError if it has exited."""
        self._awake.look()
        if self._process.ended():
            raise CaseFailedError("generator_failed", f"the generator ended; {self._last_words()}")

    def awake(self, last_s: float) -> float | None:
        """Return the CPUs it used or waited for."""
        return self._awake.cpus(last_s)

    def cpu_s(self) -> float | None:
        """Return its CPU time since it started."""
        with contextlib.suppress(psutil.Error):
            return used_cpu_s(psutil.Process(self._process.pid))
        return None

    async def end(self) -> None:
        """Let it abandon unanswered requests, report them and exit."""
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
    """Run the load generator; stop it at the end."""
    process = ManagedProcess(COMMAND, environment=server_environment(), stdin=subprocess.PIPE, may_hide=False)
    errors = Tail(process.process.stderr)
    try:
        assert process.process.stdout is not None
        one = Generator(process, errors)
        with reading_lines(process.process.stdout.fileno(), one.take):
            yield one
    finally:
        await process.stop(grace_s=0)


LIMIT_S = 1.0  # timeout of an answer if no goal names one
LEAD_S = 0.25  # delay before the first request may be due
LOOK_S = 0.1
PING_EVERY_S = 0.025
CLEARLY = 10.0  # a step ends early if this many times as many requests miss a goal as may
FEWEST_MISSED = 5
STOP_S = 0.5  # how long a server may take to exit; its remaining work does not matter
LATER = 1.1  # an answer is waited for this many times the limit


def longest_s(goals: Sequence[Goal]) -> float:
    """Return the longest time an answer may take; what is not answered by then misses its goal."""
    return max((goal.limit for goal in goals if goal.figure.startswith("response_")), default=LIMIT_S)


@dataclass(frozen=True, slots=True)
class Offer:
    """The inputs of a step, and the record that it fills."""

    plan: Plan
    case: Case
    expected: Expectation
    services: Services
    step: RateStep
    due_s: Sequence[float]
    goals: Sequence[Goal]
    tell: Callable[[], None]

    async def measure(self) -> None:
        """Measure the step; record an error of the server as a failure."""
        began_s, record = time.monotonic(), self.step.record
        record.answer_bytes, record.answer_status = self.expected.size_bytes, self.expected.status
        try:
            starting = running(self.plan, self.case, record, self.services)
            async with generator() as sending, client() as session, starting as server:
                await warm_up(server, session, self.expected, record)
                server.grace_s = STOP_S
                await self._under_load(server, session, sending)
        except CaseFailedError as failed:
            record.failure = Failure(failed.code, str(failed))
        except Exception as error:  # a mistake of this program must not cost the other steps
            record.failure = Failure("bench_error", f"the bench itself failed, please report it: {one_line(error)}")
        record.case_s = time.monotonic() - began_s

    async def _under_load(self, server: Server, session: aiohttp.ClientSession, sending: Generator) -> None:
        record, load = self.step.record, self.plan.load_of(self.case)
        record.load_began_s = began_s = time.monotonic() + LEAD_S
        await sending.begin(server.load_url, self.expected, began_s, self.due_s, keep_alive=load.keep_alive)
        cpu_s = sending.cpu_s() or 0.0
        patience_s = LATER * max((one.limit for one in self.goals if one.figure.startswith("ping_")), default=0.1)
        async with contextlib.AsyncExitStack() as watching:
            for one in (
                probing(session, server.url, server.ping, patience_s, record.pings, began_s, PING_EVERY_S),
                *([sampling(server.pid, record, began_s)] if server.pid is not None else []),
                watching_machine(record),
            ):
                await watching.enter_async_context(one)
            await server.while_alive(self._until_seen(sending))
            record.load_s = self.step.seen_until_s = time.monotonic() - began_s
        record.tool_cpu_s = max(0.0, (sending.cpu_s() or 0.0) - cpu_s)
        self.step.generator_awake = sending.awake(record.load_s)
        await sending.end()
        self._keep(sending)

    async def _until_seen(self, sending: Generator) -> None:
        """Wait until every request was due and is answered, waited too long, or can't matter any more.

        Answers that come too late still tell how long they were served. Pings that come too late tell nothing new: they
        end every step but the first, which finds out how many requests the server answers when overloaded.
        """
        began_s, told = self.step.record.load_began_s or 0.0, 0
        due_s, longest = np.asarray(self.due_s), longest_s(self.goals)
        while True:
            await asyncio.sleep(LOOK_S)
            sending.look()
            now_s = time.monotonic() - began_s
            for _ in range(len(sending.done) - told):
                self.tell()
            told = len(sending.done)
            are_all_due = now_s > due_s[-1]
            if are_all_due and (told >= len(due_s) or now_s > due_s[-1] + LATER * longest):
                return
            may_break = are_all_due or (self.step.record.round > 1 and self._are_pings_missed(due_s))
            if may_break and (self._are_pings_missed(due_s) or self._are_answers_missed(sending, due_s, now_s)):
                self.step.broke = True
                return

    def _are_answers_missed(self, sending: Generator, due_s: NDArray[np.float64], now_s: float) -> bool:
        arrivals = sending.arrivals
        lost = sum(bool(outcome) for outcome in arrivals.outcome)
        waits = np.subtract(arrivals.ended_s, arrivals.due_s)
        waiting = np.ones(len(due_s), dtype=bool)
        waiting[list(sending.done)] = False
        still = now_s - due_s[waiting]
        return any(
            lost + int(np.sum(waits > goal.limit)) + int(np.sum(still > goal.limit)) >= most
            for goal, most in self._most_missed("response", len(due_s))
        )

    def _are_pings_missed(self, due_s: NDArray[np.float64]) -> bool:
        waited_s = np.asarray(self.step.record.pings.waited_s)
        planned = round(due_s[-1] / PING_EVERY_S)
        return any(int(np.sum(waited_s > goal.limit)) >= most for goal, most in self._most_missed("ping", planned))

    def _most_missed(self, kind: str, planned: int) -> Iterator[tuple[Goal, int]]:
        """Return the goals about a percentile, and how many misses make it hopeless."""
        for goal in self.goals:
            its_kind, percent = percentile_of(goal)
            if its_kind == kind and percent < 100:
                allowed = 1 - percent / 100
                share = min((1 + allowed) / 2, CLEARLY * allowed)
                yield goal, max(FEWEST_MISSED, math.ceil(share * planned))

    def _keep(self, sending: Generator) -> None:
        """Record the requests due before the step ended, in the order of their due times."""
        columns, told = self.step.arrivals, sending.arrivals
        for place in np.argsort(told.due_s, kind="stable"):
            if told.due_s[place] <= self.step.seen_until_s:
                columns.due_s.append(round(told.due_s[place], 6))
                columns.sent_s.append(told.sent_s[place])
                columns.ended_s.append(min(told.ended_s[place], max(self.step.seen_until_s, told.sent_s[place])))
                columns.outcome.append(told.outcome[place])
