"""The plan of a capacity: each server with each task, the goals, and how long a search may take."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from common.errors import BadInputError
from under_siege.model.case import Value
from under_siege.model.suite import Suite
from under_siege.model.threshold import Goal, goal
from under_siege.run.plan import Plan, make_plan
from under_siege.targets.expectation import Expectation
from under_siege.targets.selection import CAPACITY, refuse_unsupported
from under_siege.targets.strategies import by_hand

USERS = 25  # of the ceiling, which is a closed loop: more than enough to keep every CPU busy
LIMIT_S, TIMES_ALONE, PING_LIMIT_S = 1.0, 10.0, 0.05  # of the goals where none is named
BUDGET_S, MOST_TIMES = 60.0, 30.0  # of a server, where its goals are about a second; for longer ones up to so much more
_NOT_SOUGHT = ("rate_per_s", "of_ceiling")


def capacity_plan(suite: Suite, goals: Sequence[str], axes: Mapping[str, Sequence[Value]], *, seed: int | None) -> Plan:
    """The plan, all goals checked; a ceiling that is a server of the suite is one of those that are searched.

    Raises:
        BadInputError: as `make_plan`; or a goal is none, or none that a search can have.
    """
    refuse_unsupported(CAPACITY, suite)
    for text in goals:
        check(goal(text), suite)
    targets = tuple(by_hand(target) for target in suite.targets)  # as they are when nobody compares them
    ceiling = suite.ceiling
    if ceiling is not None and not ceiling.is_bare:
        targets, ceiling = (*targets, ceiling), None
    searched = replace(suite, targets=targets, ceiling=ceiling, axes={**suite.axes, "users": (USERS,)})
    return make_plan(searched, axes, time_s=None, rounds=1, seed=seed)


def check(wanted: Goal, suite: Suite) -> None:
    """Raises BadInputError if no rate of arrivals could be sought with this goal."""
    if wanted.of_base or wanted.figure in _NOT_SOUGHT:
        raise BadInputError(
            f"{wanted.text!r}: the rate is what is sought here; expected goals about times, availability, cpu or "
            "memory, such as 'p99 < 1s'"
        )
    if wanted.is_at_most is (wanted.figure == "availability_pct"):
        other = wanted.text.replace(wanted.operator, ">=" if wanted.is_at_most else "<")
        raise BadInputError(f"{wanted.text!r} would hold the better the more there is to do; expected {other!r}")
    if wanted.figure.startswith("ping_") and suite.ping is None:
        raise BadInputError(f"{wanted.text!r}: nothing is pinged here; name the path of a health check: --ping /health")
    if wanted.limit <= 0 or (wanted.figure == "availability_pct" and wanted.limit >= 100):
        raise BadInputError(f"{wanted.text!r} can't hold at any rate; expected a limit that can be kept")


def goals_for(expected: Expectation, suite: Suite) -> list[str]:
    """Those that hold where none is named: ten times what the task takes alone, if that is more than a second."""
    limit_s = max(LIMIT_S, TIMES_ALONE * expected.task_s)
    limit_s = round(limit_s, 1 - math.floor(math.log10(limit_s)))  # two digits
    return [f"p99 < {limit_s:g}s", *([f"ping p99 < {PING_LIMIT_S * 1000:g}ms"] if suite.ping else [])]


def longest_s(goals: Sequence[Goal]) -> float:
    """The longest time that an answer may take; what is not answered by then misses its goal."""
    return max((one.limit for one in goals if one.figure.startswith("response_")), default=LIMIT_S)


def budget_s(goals: Sequence[Goal]) -> float:
    """How long the search for one server may take."""
    return BUDGET_S * min(MOST_TIMES, max(1.0, longest_s(goals) / LIMIT_S))
