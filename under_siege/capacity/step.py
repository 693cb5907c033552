"""Send requests to a server from a separate load generator, and record the outcome, including failures."""

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import aiohttp
import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw

from common.errors import one_line
from under_siege.host.limits import watching_limits
from under_siege.host.machine_speed import watching_machine
from under_siege.host.resource_usage import sampling
from under_siege.host.services import Services
from under_siege.judge.goal import Goal, goal
from under_siege.load.http_client import client
from under_siege.load.pings import probing
from under_siege.measure.generator import Generator, generator
from under_siege.measure.load_run import LEAD_S
from under_siege.measure.plan import Plan
from under_siege.measure.server import Server, running
from under_siege.measure.warm_up import warm_up
from under_siege.record.record import CaseFailedError, Failure, RateStep
from under_siege.suite.expected_response import Expectation

Floats = NDArray[np.float64]

UTILISATIONS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.94)
_PERCENTS = (90.0, 95.0, 99.0)
DRAWN = 400  # maximum number of random series of arrivals from which the most typical one is chosen
MOST_DRAWN = 200_000  # maximum number of arrivals in all series together
FEWEST = 20  # minimum number of arrivals for percentiles


def typical_arrivals(count: int, seed: Sequence[int]) -> Floats:
    """Return the times of `count` Poisson arrivals in ascending order, in units of their mean interval.

    Of many random series, choose the one that causes the most typical waiting times in a queue.
    """
    draw = np.random.default_rng(seed)
    candidates = np.sort(draw.random((max(1, min(DRAWN, MOST_DRAWN // count)), count)), axis=1) * count
    if count < FEWEST:
        return np.asarray(candidates[0])
    return np.asarray(candidates[np.argmin(_atypical(candidates))])


def _atypical(candidates: Floats) -> Floats:
    """Return how far the waits in each series deviate from those in an infinite series, summed over utilizations."""
    distances = np.zeros(len(candidates))
    for busy in UTILISATIONS:
        work = busy * np.arange(candidates.shape[1]) - candidates
        waits = work - np.minimum.accumulate(work, axis=1)  # Lindley's recursion (1952) in closed form
        for percent, waited in zip(_PERCENTS, np.percentile(waits, _PERCENTS, axis=1), strict=True):
            distances += np.log((waited + busy) / (usual_wait(busy, percent) + busy)) ** 2
    return distances


def usual_wait(busy: float, percent: float) -> float:
    """Return a percentile of the waiting time in an M/D/1 queue, in units of the mean interval between arrivals.

    The percentile is computed from the exponential tail, which is exact in the limit of long waits. For waits longer
    than one service time, the error is less than 0.01 (Tijms, A First Course in Stochastic Models, 2003, section 9.6).
    """
    decay = -float(lambertw(-busy * math.exp(-busy), -1).real) - busy  # busy * (e^decay - 1) = decay
    share = (1 - busy) / (busy * math.exp(decay) - 1)
    return busy * max(0.0, math.log(share / (1 - percent / 100)) / decay)


TIMEOUT = 1.1  # how long a step waits for its last responses, as a multiple of the longest limit
LIMIT_S = 1.0  # response-time limit if no goal sets one
LOOK_S = 0.1
PING_EVERY_S = 0.025
STOP_S = 0.5  # maximum time for a server to exit; short, because the server's remaining work does not matter


def longest_s(goals: Sequence[Goal]) -> float:
    """Return the longest limit of the goals for responses and events, or `LIMIT_S` if they have none."""
    kinds = ("response_", "first_event_", "gap_")
    return max((goal.limit for goal in goals if goal.figure.startswith(kinds)), default=LIMIT_S)


def last_response_s(goals: Sequence[Goal], expected: Expectation) -> float:
    """Return how long a step waits for its last responses.

    If no goal limits responses, they may take as long as those of the idle server and the usual limit.
    """
    has_limit = any(goal.figure.startswith("response_") for goal in goals)
    return TIMEOUT * longest_s(goals) + (0.0 if has_limit and not expected.stream else expected.task_s)


@dataclass(frozen=True, slots=True)
class Offer:
    """A step: its inputs, and the record in which it stores its outcome."""

    plan: Plan
    expected: Expectation
    services: Services
    step: RateStep
    due_s: Sequence[float]  # empty for a closed loop
    on_answer: Callable[[], None]

    async def measure(self) -> None:
        """Measure the step; record any error as a failure."""
        began_s, record = time.monotonic(), self.step.record
        record.answer_bytes, record.answer_status = self.expected.size_bytes, self.expected.status
        record.other_statuses, record.mix = self.expected.other_statuses(), self.expected.sent_mix()
        try:
            starting = running(self.plan, self.step.case, record, self.services)
            async with generator() as sending, client() as session, starting as server:
                await warm_up(server, session, self.expected, record)
                server.grace_s = STOP_S
                await self._under_load(server, session, sending)
        except CaseFailedError as failed:
            record.failure = Failure(failed.code, str(failed))
        except Exception as error:  # a bug in the bench must not discard the results of the other steps
            record.failure = Failure("bench_error", f"internal error, please report it: {one_line(error)}")
        record.case_s = time.monotonic() - began_s

    async def _under_load(self, server: Server, session: aiohttp.ClientSession, sending: Generator) -> None:
        record = self.step.record
        load = self.plan.load_of(self.step.case)
        users = self.step.closed_users
        goals = [goal(text) for text in self.step.goals]
        await server.while_alive(sending.set_up(load.setup, server.url, users))
        record.load_began_s = began_s = time.monotonic() + LEAD_S
        record.stream, record.text_events = self.expected.read_as
        record.keep_alive = load.keep_alive
        await sending.begin(
            record.requests,
            began_s,
            server.load_url,
            self.expected,
            turns=self.plan.load.order(self.plan.seed, record.round) if self.expected.mix else (),
            due_s=self.due_s,
            users=users,
            keep_alive=load.keep_alive,
        )
        cpu_s = sending.cpu_s() or 0.0
        timeout_s = TIMEOUT * max((goal.limit for goal in goals if goal.figure.startswith("ping_")), default=0.1)
        pings = probing(session, server.url, server.ping, timeout_s, record.requests, began_s, PING_EVERY_S)
        async with pings, sampling(server.pid, record, began_s), watching_machine(record):
            with watching_limits(server.group, record):
                await server.while_alive(self._until_seen(sending, last_response_s(goals, self.expected)))
            record.load_s = self.step.seen_until_s = time.monotonic() - began_s
        record.tool_cpu_s = max(0.0, (sending.cpu_s() or 0.0) - cpu_s)
        self.step.generator_awake = sending.awake.cpus(record.load_s)
        await sending.end()

    async def _until_seen(self, sending: Generator, timeout_s: float) -> None:
        """Wait until the time of a closed loop is over, or until all requests were answered or have timed out."""
        began_s, answered = self.step.record.load_began_s or 0.0, 0
        end_s = self.due_s[-1] + timeout_s if self.due_s else self.step.record.time_s
        while (now_s := time.monotonic() - began_s) < end_s:
            await asyncio.sleep(LOOK_S)
            sending.sample()
            for _ in range(sending.ended - answered):
                self.on_answer()
            answered = sending.ended
            if self.due_s and now_s > self.due_s[-1] and answered >= len(self.due_s):
                return
