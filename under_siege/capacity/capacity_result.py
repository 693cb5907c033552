"""The capacity of each server: the highest arrival rate at which all goals hold, with its confidence interval.

While it is still being searched for, `wanted` says which rate to offer next.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from under_siege.capacity.rate_search import ENDS, Search
from under_siege.capacity.step_metrics import Offered
from under_siege.model.case import Case
from under_siege.model.record import Result
from under_siege.model.threshold import Goal

WIDE = 1.35  # upper ÷ lower end: beyond it, ±15 %, nothing is decided
USUAL_STEPS = 5  # of a server
OK, FAILED, UNDECIDED = "ok", "failed", "undecided"


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a server can take."""

    case: Case
    title: str
    goals: tuple[Goal, ...]
    steps: tuple[Offered, ...]  # sound ones, by rising rates
    per_s: float | None  # the estimate; None: not between the rates that were offered
    holds: float | None  # lower end of the interval; None: not even at the lowest rate
    fails: float | None  # upper end; None: higher than any rate that was offered
    breaks: Goal | None  # the goal that is missed first
    ceiling_per_s: float | None
    least_per_s: float  # that is offered
    most_per_s: float  # that could be offered
    usual_speed: float | None
    limited: Offered | None = None  # the lowest rate that the generator could not offer
    steady_per_s: float | None = None  # the estimate for a machine of constant speed, where the speed matters
    failure: str = ""

    @property
    def verdict(self) -> str:
        """`undecided` if the interval is wider than about ±15 %."""
        if self.failure:
            return FAILED
        is_wide = bool(self.holds and self.fails and self.fails > WIDE * self.holds)
        return UNDECIDED if is_wide or (self.holds is None and not self.is_none) else OK

    @property
    def is_none(self) -> bool:
        """Whether a goal is missed even at the lowest rate that is offered to any server."""
        lowest = min((one.per_s for one in self.steps), default=math.inf)
        return self.holds is None and lowest <= self.least_per_s * (1 + ENDS)

    @property
    def at(self) -> Offered | None:
        """The step that is the nearest to the rate that it holds, of those at which it held."""
        held = [one for one in self.steps if self.holds and not self.missed_at(one)]
        return max(held, key=lambda one: -abs(math.log(one.per_s / (self.holds or 1.0))), default=None)

    def missed_at(self, one: Offered) -> list[Goal]:
        """The goals that did not hold in that step."""
        return [each for each in self.goals if (excess := one.excess(each)) is not None and excess >= 0]

    @property
    def in_time_s(self) -> float:
        """What an answer may take that is in time: the shortest that any goal allows."""
        return min((one.limit for one in self.goals if one.figure.startswith("response_")), default=math.inf)

    @property
    def of_ceiling(self) -> float | None:
        """Its share of what the machine can do."""
        return self.per_s / self.ceiling_per_s if self.per_s and self.ceiling_per_s else None


def capacities(result: Result) -> list[Capacity]:
    """Of every server at every task, in the order of their numbers."""
    cases = list(dict.fromkeys(step.case for step in result.steps))
    return [_capacity(Search(result, case)) for case in sorted(cases, key=_place)]


def _capacity(search: Search) -> Capacity:
    failure = search.failed[0].failure if search.failed else ""
    failure = failure or ("" if search.sound else "the load generator could not offer any rate in time")
    holds, fails = (None, None) if failure or not search.knees else search.interval()
    return Capacity(
        case=search.case,
        title=search.title,
        goals=search.goals,
        steps=tuple(sorted(search.sound, key=lambda step: step.per_s)),
        per_s=search.quantile(0.5) if holds and fails else None,
        holds=holds,
        fails=fails,
        breaks=search.breaks() if fails else None,
        ceiling_per_s=search.ceiling,
        least_per_s=search.least,
        most_per_s=search.most,
        usual_speed=search.usual,
        limited=min(search.limited, key=lambda step: step.per_s, default=None),
        steady_per_s=search.steady() if holds and fails else None,
        failure=failure,
    )


def _place(case: Case) -> tuple[float, str, str]:
    number = case.server.rpartition("/")[2].split("_")[0]
    return (int(number) if number.isdecimal() else math.inf), case.server, repr(case.values)


def wanted(result: Result, case: Case, budget_s: float, task_s: float) -> tuple[float, float] | None:
    """What is to be offered next, and for how long; None: it is known well enough, or there is no time left."""
    return Search(result, case, task_s).wanted(budget_s)


def exit_code(result: Result) -> int:
    """1 if a server could not be searched, 3 if it could not be decided well, else 0: its nature is no fault."""
    verdicts = {one.verdict for one in capacities(result)}
    return 1 if FAILED in verdicts else 3 if UNDECIDED in verdicts else 0
