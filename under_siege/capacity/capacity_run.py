"""Search the capacity of each server: step after step, at the rates that `capacity_result` asks for."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from common.errors import BadInputError
from under_siege.capacity.capacity_result import wanted
from under_siege.capacity.rate_step import LIMIT_S, Offer, longest_s, typical_arrivals
from under_siege.environments.services import Services
from under_siege.errors import CaseFailedError
from under_siege.model.case import Case, Value
from under_siege.model.record import Failure, RateStep, Record, Result
from under_siege.model.suite import Suite
from under_siege.model.threshold import Goal, goal
from under_siege.monitors.cpu_speed_probe import SpeedProbe, speed_probe
from under_siege.run.case_run import beside_the_machine
from under_siege.run.ceiling import compute_bare
from under_siege.run.duration import Length, in_words
from under_siege.run.plan import Plan, ProgressListener, make_plan, new_record
from under_siege.run.session import Keep, Meanwhile, run_and_save
from under_siege.targets.expectation import Expectation, Expectations
from under_siege.targets.selection import CAPACITY, refuse_unsupported
from under_siege.targets.strategies import with_default_queue

USERS = 25  # of the ceiling, which is a closed loop: more than enough to keep every CPU busy
TIMES_ALONE, PING_LIMIT_S = 10.0, 0.05  # of the goals where none is named
BUDGET_S, MOST_TIMES = 60.0, 30.0  # of a server, where its goals are about a second; for longer ones up to so much more
_NOT_SOUGHT = ("rate_per_s", "of_ceiling")


def capacity_plan(suite: Suite, goals: Sequence[str], axes: Mapping[str, Sequence[Value]], *, seed: int | None) -> Plan:
    """Return the plan, all goals checked; a ceiling that is a server of the suite is one of those that are searched.

    Raises:
        BadInputError: as `make_plan`; or a goal is none, or none that a search can have.
    """
    refuse_unsupported(CAPACITY, suite)
    for text in goals:
        check(goal(text), suite)
    targets = tuple(with_default_queue(target) for target in suite.targets)  # as they are when nobody compares them
    ceiling = suite.ceiling
    if ceiling is not None and not ceiling.is_bare:
        targets, ceiling = (*targets, ceiling), None
    searched = replace(suite, targets=targets, ceiling=ceiling, axes={**suite.axes, "users": (USERS,)})
    return make_plan(searched, axes, time_s=None, rounds=1, seed=seed)


def check(sought: Goal, suite: Suite) -> None:
    """Raises BadInputError if no rate of arrivals could be sought with this goal."""
    if sought.of_base or sought.figure in _NOT_SOUGHT:
        raise BadInputError(
            f"{sought.text!r}: the rate is what is sought here; expected goals about times, availability, cpu or "
            "memory, such as 'p99 < 1s'"
        )
    if sought.is_at_most is (sought.figure == "availability_pct"):
        other = sought.text.replace(sought.operator, ">=" if sought.is_at_most else "<")
        raise BadInputError(f"{sought.text!r} would hold the better the more there is to do; expected {other!r}")
    if sought.figure.startswith("ping_") and suite.ping is None:
        raise BadInputError(f"{sought.text!r}: nothing is pinged here; name the path of a health check: --ping /health")
    if sought.limit <= 0 or (sought.figure == "availability_pct" and sought.limit >= 100):
        raise BadInputError(f"{sought.text!r} can't hold at any rate; expected a limit that can be kept")


def goals_for(expected: Expectation, suite: Suite) -> list[str]:
    """Those that hold where none is named: ten times what the task takes alone, if that is more than a second."""
    limit_s = max(LIMIT_S, TIMES_ALONE * expected.task_s)
    limit_s = round(limit_s, 1 - math.floor(math.log10(limit_s)))  # two digits
    return [f"p99 < {limit_s:g}s", *([f"ping p99 < {PING_LIMIT_S * 1000:g}ms"] if suite.ping else [])]


def budget_s(goals: Sequence[Goal]) -> float:
    """Return how long the search for one server may take."""
    return BUDGET_S * min(MOST_TIMES, max(1.0, longest_s(goals) / LIMIT_S))


FEWEST = 2  # requests of a step


def run_capacity(
    plan: Plan,
    goals: Sequence[str],
    time_s: float | None,
    out: Path,
    watcher: ProgressListener,
    command: Sequence[str],
    meanwhile: Meanwhile | None = None,
) -> tuple[Result, int | None, bool]:
    """Find the capacity of each server, and save the result after each step; see `run_and_save`."""

    async def work(ready: Plan, result: Result, expectations: Expectations, services: Services, keep: Keep) -> None:
        await search(ready, list(goals), time_s, result, expectations, services, watcher, keep)

    return run_and_save(plan, out, watcher, command, work, meanwhile)


async def search(
    plan: Plan,
    goals: list[str],
    time_s: float | None,
    result: Result,
    expectations: Expectations,
    services: Services,
    watcher: ProgressListener,
    keep: Callable[[Record | RateStep], None],
) -> None:
    """Measures the ceilings, then step after step of every server as long as one is wanted; keeps each."""
    order = random.Random(plan.seed)  # noqa: S311 (not for secrets)
    async with speed_probe() as ticking:
        for case in plan.ceilings:
            keep(await _bare(plan, case, expectations, ticking, watcher))
        left = list(plan.cases)
        _say_how_long(plan, goals, time_s, expectations, watcher)
        for number in count(1):
            for case in order.sample(left, len(left)):
                expected = expectations[case.work]
                its = goals or goals_for(expected, plan.suite)
                budget = time_s or budget_s([goal(text) for text in its])
                found = wanted(result, case, budget, expected.task_s)
                if found is None:
                    left.remove(case)
                    continue
                step = RateStep(record=new_record(plan, case, found[1], number), goals=its, arrivals_per_s=found[0])
                await _offer(plan, case, step, expectations, services, ticking, watcher)
                keep(step)
                watcher.case_ends()
            if not left:
                return


def _say_how_long(
    plan: Plan, goals: list[str], time_s: float | None, expectations: Expectations, watcher: ProgressListener
) -> None:
    each_s = [
        time_s or budget_s([goal(text) for text in goals or goals_for(expectations[case.work], plan.suite)])
        for case in plan.cases
    ]
    watcher.say(f"the search takes {in_words(sum(each_s), sum(each_s))}")


async def _offer(
    plan: Plan,
    case: Case,
    step: RateStep,
    expectations: Expectations,
    services: Services,
    ticking: SpeedProbe,
    watcher: ProgressListener,
) -> None:
    record, per_s = step.record, step.arrivals_per_s
    watcher.case_begins(f"step {record.round}  {record.server}  {per_s:.3g}/s", record.time_s)
    unit = typical_arrivals(max(FEWEST, round(per_s * record.time_s)), [plan.seed, record.round])
    due_s, goals = [round(float(one), 6) for one in unit / per_s], [goal(text) for text in step.goals]
    async with beside_the_machine(record, ticking, None):
        expected = plan.expected_of(case, expectations)
        await Offer(plan, case, expected, services, step, due_s, goals, watcher.answer_came).measure()


async def _bare(
    plan: Plan, case: Case, expectations: Expectations, ticking: SpeedProbe, watcher: ProgressListener
) -> Record:
    """Return the ceiling: the task with nothing around it, on every CPU."""
    expected = expectations[case.work]
    length = Length(None, case.users, expected)
    record = new_record(plan, case, length.end_s, 1)
    record.answer_bytes = expected.size_bytes
    watcher.case_begins("the ceiling", length.end_s)
    async with beside_the_machine(record, ticking, None):
        try:
            python, folder = plan.pythons[case.python], plan.suite.folder
            await compute_bare(case, python, expected, record, length, watcher.answer_came, folder=folder)
        except CaseFailedError as failed:
            record.failure = Failure(failed.code, str(failed))
    watcher.case_ends()
    return record
