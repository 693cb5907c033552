"""A step: one rate of arrivals, offered to a server that was started for it, and recorded whatever becomes of it."""

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import aiohttp
import numpy as np
from numpy.typing import NDArray

from common.errors import one_line
from under_siege.capacity.capacity_plan import longest_s
from under_siege.capacity.load_generator import Generator, generator
from under_siege.environments.services import Services
from under_siege.errors import CaseFailedError
from under_siege.http_client import client
from under_siege.model.case import Case
from under_siege.model.record import Failure, Step
from under_siege.model.threshold import Goal
from under_siege.monitors.cpu_speed_probe import watching_machine
from under_siege.monitors.ping import probing
from under_siege.monitors.resource_usage import sampling
from under_siege.run.plan import Plan
from under_siege.run.server import Server, running
from under_siege.run.warm_up import warm_up
from under_siege.targets.expectation import Expectation

LEAD_S = 0.25  # until the first request may be due
LOOK_S = 0.1
PING_EVERY_S = 0.025
CLEARLY = 10.0  # times as many as may miss a goal: then nothing will make up for it
FEWEST_MISSED = 5
STOP_S = 0.5  # for a server to end: what it still has to do nobody waits for
LATER = 1.1  # times the limit, that an answer is waited for
PERCENTS = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "max": 100.0}


@dataclass(frozen=True, slots=True)
class Offer:
    """All that a step needs, and the record that it fills."""

    plan: Plan
    case: Case
    expected: Expectation
    services: Services
    step: Step
    due_s: Sequence[float]
    goals: Sequence[Goal]
    tell: Callable[[], None]

    async def measure(self) -> None:
        """Offers it. Whatever goes wrong with the server is a failure in the record."""
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
            its_kind, _, percent = goal.figure.removesuffix("_s").rpartition("_")
            if its_kind == kind and PERCENTS.get(percent, 100.0) < 100:
                allowed = 1 - PERCENTS[percent] / 100
                share = min((1 + allowed) / 2, CLEARLY * allowed)
                yield goal, max(FEWEST_MISSED, math.ceil(share * planned))

    def _keep(self, sending: Generator) -> None:
        """In the order in which they were due; without those that were not any more."""
        columns, told = self.step.arrivals, sending.arrivals
        for place in np.argsort(told.due_s, kind="stable"):
            if told.due_s[place] <= self.step.seen_until_s:
                columns.due_s.append(round(told.due_s[place], 6))
                columns.sent_s.append(told.sent_s[place])
                columns.ended_s.append(min(told.ended_s[place], max(self.step.seen_until_s, told.sent_s[place])))
                columns.outcome.append(told.outcome[place])
