"""Search for the capacity of each server by offering the arrival rates that `estimate` chooses."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from common.errors import BadInputError
from under_siege.capacity.estimate import FEWEST, Capacity
from under_siege.capacity.step import LIMIT_S, Offer, longest_s, typical_arrivals
from under_siege.capacity.step_metrics import StepMetrics
from under_siege.host.machine_speed import SpeedProbe, beside_the_machine, speed_probe
from under_siege.host.services import Services
from under_siege.judge.goal import Goal, goal
from under_siege.measure.load_run import compute_bare
from under_siege.measure.plan import Length, Plan, ProgressListener, in_words, make_plan, new_record
from under_siege.measure.session import Keep, Meanwhile, run_and_save
from under_siege.paths import USERS
from under_siege.record.case import Case, Value
from under_siege.record.record import CaseFailedError, Failure, RateStep, Record
from under_siege.record.result import Result
from under_siege.suite.expectation import Expectations
from under_siege.suite.selection import CAPACITY, refuse_unsupported
from under_siege.suite.suite import Suite

# Default goals: the limit for the p99 response time as a multiple of the duration of the task, and a ping goal.
TIMES_ALONE, PING_GOAL = 10.0, "ping p99 < 50ms"
LEAST_PER_S = 1e-3  # the saturation rate of a server that answered no request
BUDGET_S, MOST_TIMES = 60.0, 30.0  # time per server for limits up to 1 s; maximum factor by which longer ones extend it
_NOT_SUPPORTED = ("rate_per_s", "of_ceiling")


def capacity_plan(suite: Suite, goals: Sequence[str], axes: Mapping[str, Sequence[Value]], *, seed: int | None) -> Plan:
    """Check all goals and return the plan; if the ceiling is itself a server, its capacity is measured, too.

    Raises:
        BadInputError: a goal is invalid or unsuitable for a search; see also `make_plan`.
    """
    refuse_unsupported(CAPACITY, suite)
    for text in goals:
        check_goal(goal(text), suite)
    targets, ceiling = suite.targets, suite.ceiling
    if ceiling is not None and not ceiling.has_no_server:
        targets, ceiling = (*targets, ceiling), None
    searched = replace(suite, targets=targets, ceiling=ceiling, axes={**suite.axes, "users": (USERS,)})
    return make_plan(searched, axes, time_s=None, rounds=1, seed=seed)


def check_goal(requested: Goal, suite: Suite) -> None:
    """Raise BadInputError if the goal can't limit the arrival rate in a search."""
    if requested.of_base or requested.figure in _NOT_SUPPORTED:
        raise BadInputError(
            f"{requested.text!r}: not supported in a capacity search; set a goal for latency, availability, cpu or "
            "memory, such as 'p99 < 1s'"
        )
    if requested.is_at_most is (requested.figure == "availability_pct"):
        other = requested.text.replace(requested.operator, ">=" if requested.is_at_most else "<")
        raise BadInputError(
            f"{requested.text!r} is easier to meet under more load, so it can't limit the rate; use {other!r}"
        )
    if requested.figure.startswith("ping_") and suite.ping is None:
        raise BadInputError(f"{requested.text!r}: no health check is set; add one, such as --ping /health")
    if requested.limit <= 0 or (requested.figure == "availability_pct" and requested.limit >= 100):
        raise BadInputError(f"{requested.text!r} is too strict for a search; choose a limit that can be met")


def run_capacity(
    plan: Plan,
    goals: Sequence[str],
    time_s: float | None,
    out: Path,
    watcher: ProgressListener,
    command: Sequence[str],
    meanwhile: Meanwhile | None = None,
) -> tuple[Result, int | None, bool]:
    """Search for the capacity of each server, and save the result after each step; see `run_and_save`."""

    async def work(ready: Plan, result: Result, expectations: Expectations, services: Services, keep: Keep) -> None:
        await CapacityRun(ready, list(goals), time_s, result, expectations, services, watcher, keep).run()

    return run_and_save(plan, out, watcher, command, work, meanwhile)


@dataclass(frozen=True, slots=True)
class CapacityRun:
    """A capacity search and its inputs."""

    plan: Plan
    goals: list[str]  # if empty, each task has default goals
    time_s: float | None  # time budget per server; if None, it depends on the goals
    result: Result
    expectations: Expectations
    services: Services
    watcher: ProgressListener
    keep: Keep

    async def run(self) -> None:
        """Measure the ceilings; then offer rates to the servers in random order until no server needs another step."""
        order = random.Random(self.plan.seed)  # noqa: S311 (not for secrets)
        async with speed_probe() as probe:
            for case in self.plan.ceilings:
                self.keep(await self._measure_ceiling(case, probe))
            remaining = list(self.plan.cases)
            total_s = sum(map(self._budget_s, remaining))
            self.watcher.say(f"the search takes {in_words(total_s, total_s)}")
            for step_number in count(1):
                for case in order.sample(remaining, len(remaining)):
                    offer = Capacity(self.result, case).next_offer(self._budget_s(case))
                    if offer is None:
                        remaining.remove(case)
                        continue
                    rate, duration_s, users = offer
                    record = new_record(self.plan, case, duration_s, step_number)
                    goals = self._goals_of(case)
                    step = RateStep(record=record, goals=goals, arrivals_per_s=rate or LEAST_PER_S, closed_users=users)
                    await self._measure_step(case, step, probe)
                    self.keep(step)
                    self.watcher.case_ends()
                if not remaining:
                    return

    def _goals_of(self, case: Case) -> list[str]:
        """Return the requested goals or, if there are none, default goals for the response times and for pings."""
        if self.goals:
            return self.goals
        limit_s = max(LIMIT_S, TIMES_ALONE * self.expectations[case.work].task_s)
        limit_s = round(limit_s, 1 - math.floor(math.log10(limit_s)))  # two significant digits
        return [f"p99 < {limit_s:g}s", *([PING_GOAL] if self.plan.suite.ping else [])]

    def _budget_s(self, case: Case) -> float:
        longest = longest_s([goal(text) for text in self._goals_of(case)])
        return self.time_s or BUDGET_S * min(MOST_TIMES, max(1.0, longest / LIMIT_S))

    async def _measure_step(self, case: Case, step: RateStep, probe: SpeedProbe) -> None:
        record, rate, due_s = step.record, step.arrivals_per_s, list[float]()
        load = f"{step.closed_users} users" if step.closed_users else f"{rate:.3g}/s"
        self.watcher.case_begins(f"step {record.round}  {record.server}  {load}", record.time_s)
        if not step.closed_users:
            arrivals = typical_arrivals(max(FEWEST, round(rate * record.time_s)), [self.plan.seed, record.round])
            due_s = [round(float(at), 6) for at in arrivals / rate]
        async with beside_the_machine(record, probe, None):
            expected = self.plan.expected_of(case, self.expectations)
            await Offer(self.plan, expected, self.services, step, due_s, self.watcher.answer_came).measure()
        if step.closed_users:
            step.arrivals_per_s = max(LEAST_PER_S, StepMetrics(step).answered_per_s)

    async def _measure_ceiling(self, case: Case, probe: SpeedProbe) -> Record:
        """Measure the ceiling by running the same tasks on every CPU without a server."""
        expected = self.expectations[case.work]
        length = Length(None, case.users, expected)
        record = new_record(self.plan, case, length.end_s, 1)
        record.answer_bytes = expected.size_bytes
        self.watcher.case_begins("the ceiling", length.end_s)
        async with beside_the_machine(record, probe, None):
            try:
                python, folder = self.plan.pythons[case.python], self.plan.suite.folder
                await compute_bare(case, python, expected, record, length, self.watcher.answer_came, folder=folder)
            except CaseFailedError as failed:
                record.failure = Failure(failed.code, str(failed))
        self.watcher.case_ends()
        return record
