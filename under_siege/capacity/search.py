"""Search for the capacity of each server: choose the next arrival rate, offer it, and stop when the time is up.

The search begins with a closed loop, in which users keep the server busy. Short steps then offer rates halfway between
the highest that met the goals and the lowest that missed one, and two long steps offer rates around the estimate.
"""

import math
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from common.errors import BadInputError
from under_siege.capacity.estimate import OF_RATE, SearchSteps, bracket, crossings, search_steps
from under_siege.capacity.step import LIMIT_S, TIMEOUT, Offer, longest_s, typical_arrivals
from under_siege.capacity.step_metrics import StepMetrics
from under_siege.host.machine_speed import SpeedProbe, beside_the_machine, speed_probe
from under_siege.judge.goal import Goal, goal, required
from under_siege.judge.metrics import OF_STREAMS
from under_siege.judge.requirement_check import check_requirements
from under_siege.measure.load_run import run_ceiling
from under_siege.measure.plan import Plan, make_plan, new_record
from under_siege.measure.run_time import in_words
from under_siege.measure.session import Reporting, Session, run_session
from under_siege.measure.siege_length import Length
from under_siege.paths import PROGRAM, USERS
from under_siege.record.case import Case, Value
from under_siege.record.record import CaseFailedError, Failure, RateStep, Record
from under_siege.record.result import Result
from under_siege.suite.selection import CAPACITY, refuse_unsupported
from under_siege.suite.suite import Suite

BUDGET_S, MOST_TIMES = 60.0, 30.0  # time per server for limits up to 1 s; maximum factor by which longer ones extend it
USUAL_STEPS = 6  # number of steps per server that the progress bar assumes
STEP, SHORTEST_S = 1 / 12, 2.0  # length of a short step: a share of the time, and at least so long
LOWER = 1 / 3  # while no rate has met all goals: a rate that may do so, as a share of the lowest that missed one
NARROW = 1.25  # ratio of the lowest rate that missed a goal to the highest that met all; then the long steps begin
CLOSING = 2 / 3  # share of the time after which the long steps begin at the latest
# Rates of the two long steps, as shares of the estimate. The first one shows whether a short step was disturbed.
ABOVE, BELOW = 1.1, 0.95
FEWEST = 2  # minimum number of requests per step
MORE_USERS, MOST_USERS = 4, 400  # factor for the users of the next closed loop; maximum number of users
TIMES_TASK = 2.5  # minimum length of a siege, as a multiple of the response time of the idle server
LONG_TASK_S = 1.0
NOTHING_PER_S = 1e-3  # recorded as the saturation rate of a server that answered no request correctly
# Default goals: the limit for the p99 response time as a multiple of the duration of the task, and a ping goal.
TIMES_ALONE, PING_GOAL = 10.0, "ping p99 < 50ms"
# The default of streams; the gap is at least TIMES_GAP times the mean gap of the idle server.
FIRST_EVENT_GOAL = "first event p99 < 1s"
GAP_S = 0.2
TIMES_GAP = 3.0
_NEEDED_LIMITS = {"throttled_pct": "cpus", "of_memory_limit": "memory"}  # metrics of a limit, and its axis


@dataclass(frozen=True, slots=True)
class StepLoad:
    """The load of the next step: an arrival rate, or users in a closed loop."""

    per_s: float
    time_s: float
    users: int = 0  # 0: open loop


def next_load(steps: SearchSteps, budget_s: float, task_s: float = 0.0) -> StepLoad | None:
    """Return the load of the next step, or None if a step failed, the capacity is out of range, or the time is up.

    Args:
        task_s: how long the idle server takes for one response.
    """
    first_s = max(SHORTEST_S, STEP * budget_s)
    if any(step.failure for step in steps.every):
        return None
    if users := _users_of_next_siege(steps, task_s):
        return StepLoad(0.0, max(first_s, TIMES_TASK * task_s), users)
    used_s = sum(step.record.case_s or 0.0 for step in steps.every)
    left_s = budget_s - used_s - max(step.startup_s for step in steps.every) - TIMEOUT * longest_s(steps.goals)
    if steps.offered and left_s < first_s / 2:
        return None
    low, high = bracket(steps)
    rate, time_s = math.sqrt((low or LOWER * high) * high), first_s
    if steps.offered and (high < NARROW * low or used_s > CLOSING * budget_s):
        share, time_s = (ABOVE, left_s / 2) if left_s > 4 * first_s else (BELOW, left_s)
        rate = share * float(crossings(steps)[0])
    time_s = max(first_s / 2, min(time_s, left_s))
    rate = min(steps.most_per_s, max(steps.least_per_s, rate, FEWEST / time_s))
    is_known = rate in (steps.least_per_s, steps.most_per_s) and rate in [step.per_s for step in steps.offered]
    return None if is_known else StepLoad(rate, time_s)


def _users_of_next_siege(steps: SearchSteps, task_s: float) -> int:
    """Return how many users the next siege needs to saturate the server, or 0 if no siege is needed.

    Sieges with more users would use up the time of a long task; the steps show what the server can do, too.
    """
    if not steps.sieges:
        return USERS
    if task_s > LONG_TASK_S:
        return 0
    last, users = steps.sieges[-1], steps.sieges[-1].step.closed_users
    return 0 if steps.is_saturated or last.is_limited or users >= MOST_USERS else min(MOST_USERS, MORE_USERS * users)


def capacity_plan(suite: Suite, goals: Sequence[str], axes: Mapping[str, Sequence[Value]], *, seed: int | None) -> Plan:
    """Check all goals and return the plan; if the ceiling is itself a server, its capacity is measured, too.

    Raises:
        BadInputError: a goal is invalid or unsuitable for a search; see also `make_plan`.
    """
    refuse_unsupported(CAPACITY, suite)
    check_requirements(suite)
    for text in goals:
        check_goal(goal(text), suite, {**suite.axes, **{name: values for name, values in axes.items() if values}})
    targets, ceiling = suite.targets, suite.ceiling
    if ceiling is not None and not ceiling.has_no_server:
        targets, ceiling = (*targets, ceiling), None
    of_rate = required([text for text in goals if goal(text).figure in OF_RATE])
    users = {**suite.axes, "users": (USERS,)}
    searched = replace(suite, targets=targets, ceiling=ceiling, axes=users, required=of_rate)
    return make_plan(searched, axes, time_s=None, rounds=1, seed=seed)


def limits_in(goals: Sequence[str]) -> list[str]:
    """Return the goals that limit the search; the others are requirements for the rate that it finds."""
    return [text for text in goals if goal(text).figure not in OF_RATE]


def check_goal(requested: Goal, suite: Suite, axes: Collection[str] = ()) -> None:
    """Raise BadInputError if the goal can neither limit the arrival rate in a search nor be checked afterwards.

    Args:
        axes: what has values in this search.
    """
    if requested.of_base:
        raise BadInputError(f"{requested.text!r}: a capacity search has no base; use it with {PROGRAM} run --against")
    if requested.figure in ("streams_at_once", "rate_per_s") and suite.load.stream is not None:
        raise BadInputError(
            f"{requested.text!r}: a capacity search offers a rate of streams; use a goal such as 'streams >= 5/s'"
        )
    if requested.request and requested.request not in {f"{one.request.method} {one.path}" for one in suite.load.mix}:
        raise BadInputError(f"{requested.text!r}: this load has no request {requested.request}")
    if (limit := _NEEDED_LIMITS.get(requested.figure, "")) and limit not in axes:
        raise BadInputError(f"{requested.text!r}: there is no limit; set one with --{limit}")
    if requested.figure not in OF_RATE and requested.is_at_most is (requested.figure == "availability_pct"):
        other = requested.text.replace(requested.operator, ">=" if requested.is_at_most else "<")
        raise BadInputError(
            f"{requested.text!r} is easier to meet under more load, so it can't limit the rate; use {other!r}"
        )
    if requested.figure in OF_STREAMS and suite.load.stream is None:
        raise BadInputError(f"{requested.text!r}: responses are not read as streams; use --stream sse, or set stream")
    if requested.figure.startswith("ping_") and suite.ping is None:
        raise BadInputError(f"{requested.text!r}: no health check is set; add one, such as --ping /health")
    if requested.limit <= 0 or (requested.figure == "availability_pct" and requested.limit >= 100):
        raise BadInputError(f"{requested.text!r} is too strict for a search; choose a limit that can be met")


def run_capacity(
    plan: Plan,
    goals: Sequence[str],
    time_s: float | None,
    reporting: Reporting,
) -> tuple[Result, int | None, bool]:
    """Search for the capacity of each server, and save the result after each step; see `run_session`."""

    async def work(session: Session) -> None:
        await CapacityRun(session, limits_in(goals), time_s).run()

    return run_session(plan, reporting, work)


def _short(seconds: float) -> str:
    return f"{float(f'{seconds:.2g}'):g}"


@dataclass(frozen=True, slots=True)
class CapacityRun:
    """A capacity search and its inputs."""

    session: Session
    goals: list[str]  # if empty, each task has default goals
    time_s: float | None  # time budget per server; if None, it depends on the goals

    @property
    def plan(self) -> Plan:
        """Return the plan of the session."""
        return self.session.plan

    async def run(self) -> None:
        """Measure the ceilings; then offer rates to the servers in random order until no server needs another step."""
        order = random.Random(self.plan.seed)  # noqa: S311 (not for secrets)
        async with speed_probe() as probe:
            for case in self.plan.ceilings:
                self.session.keep(await self._measure_ceiling(case, probe))
            remaining = list(self.plan.cases)
            total_s = sum(map(self._budget_s, remaining))
            self.session.watcher.say(f"the search takes {in_words(total_s, total_s)}")
            for step_number in count(1):
                for case in order.sample(remaining, len(remaining)):
                    load = next_load(search_steps(self.session.result, case), self._budget_s(case), self._task_s(case))
                    if load is None:
                        remaining.remove(case)
                        continue
                    self.session.keep(await self._measure_step(case, load, step_number, probe))
                    self.session.watcher.case_ends()
                if not remaining:
                    return

    def _goals_of(self, case: Case) -> list[str]:
        """Return the requested goals or, if there are none, default goals for the response times and for pings."""
        if self.goals:
            return self.goals
        pings = [PING_GOAL] if self.plan.suite.ping else []
        expected = self.session.expectations[case.work]
        if self.plan.load.stream:
            gap_s = max(GAP_S, TIMES_GAP * expected.task_s / max(1, len(expected.events)))
            return [FIRST_EVENT_GOAL, f"gap p99 < {_short(gap_s)}s", *pings]
        return [f"p99 < {_short(max(LIMIT_S, TIMES_ALONE * expected.task_s))}s", *pings]

    def _budget_s(self, case: Case) -> float:
        longest = longest_s([goal(text) for text in self._goals_of(case)])
        return self.time_s or BUDGET_S * min(MOST_TIMES, max(1.0, longest / LIMIT_S))

    def _task_s(self, case: Case) -> float:
        return self.session.expected_of(case).task_s

    async def _measure_step(self, case: Case, load: StepLoad, number: int, probe: SpeedProbe) -> RateStep:
        record, due_s = new_record(self.plan, case, load.time_s, number), list[float]()
        step = RateStep(record=record, goals=self._goals_of(case), arrivals_per_s=load.per_s, closed_users=load.users)
        in_text = f"{load.users} users" if load.users else f"{load.per_s:.3g}/s"
        self.session.watcher.case_begins(f"step {number}  {record.server}  {in_text}", record.time_s)
        if not load.users:
            arrivals = typical_arrivals(max(FEWEST, round(load.per_s * load.time_s)), [self.plan.seed, number])
            due_s = [round(float(at), 6) for at in arrivals / load.per_s]
        async with beside_the_machine(record, probe, None):
            expected = self.session.expected_of(case)
            await Offer(
                self.plan, expected, self.session.services, step, due_s, self.session.watcher.answer_came
            ).measure()
        if load.users:
            step.arrivals_per_s = max(NOTHING_PER_S, StepMetrics(step).answered_per_s)
        return step

    async def _measure_ceiling(self, case: Case, probe: SpeedProbe) -> Record:
        """Measure the ceiling by running the same tasks on every CPU without a server."""
        expected = self.session.expectations[case.work]
        length = Length(None, case.users, expected)
        record = new_record(self.plan, case, length.end_s, 1)
        record.answer_bytes = expected.size_bytes
        self.session.watcher.case_begins("the ceiling", length.end_s)
        async with beside_the_machine(record, probe, None):
            try:
                python, folder = self.plan.pythons[case.python], self.plan.suite.folder
                await run_ceiling(
                    case, python, expected, record, length, self.session.watcher.answer_came, folder=folder
                )
            except CaseFailedError as failed:
                record.failure = Failure(failed.code, str(failed))
        self.session.watcher.case_ends()
        return record
