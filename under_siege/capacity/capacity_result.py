"""Estimate the capacity of each server (the highest rate that meets all goals), and choose the next rate to offer.

The first step overloads the server. Its service times are replayed to estimate the knee, and the next steps are a bit
below it. If a replay does not resemble the steps, the search continues between rates that met the goals and rates that
did not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from under_siege.capacity.knee import Knee, Look, Queue, knee, knee_of_replicates, queue_from
from under_siege.capacity.step_metrics import Offered, percentile_of
from under_siege.model.case import Case
from under_siege.model.record import RateStep, Result
from under_siege.model.threshold import Goal, goal
from under_siege.stats.cpu_speed import speeds_of
from under_siege.stats.rounds_data import Round

INTERVAL = (0.025, 0.975)
SURE = 1.08  # upper ÷ lower end: narrow enough to stop
FEWEST, MOST = 3, 12  # steps of a server
OVERLOAD, LONG, LEAST = 1 / 10, 1 / 6, 1 / 20  # shares of the time budget: the first step, the others, and the shortest
MOST_REQUESTS = 3000  # requests of a step
PATIENCE = 1.1  # timeout of a request, as a multiple of the longest limit
BESIDE_S = 1.5  # time to start and stop a server, before it is known
LEAST_PER_S, LEAST_OF_GUESS = 1.0, 0.1  # lowest rate, absolute and as a share of the first guess
BEYOND = 1.25  # highest rate for a CPU-bound task, as a multiple of the ceiling
MOST_PER_S = 2000.0  # rate that the generator can send
BELOW_LIMIT = 0.7  # highest rate after the generator was the limit, as a share of that rate
CPU_BOUND = 0.5  # with this share of CPU time in an answer, the ceiling is a limit
EXPONENT = 0.9  # how far CPU-bound service times follow the speed probe
SLEEPS = 0.1  # with this share of CPU time or less, the CPU speed does not matter
GUESS = 0.7  # first guess, as a share of the ceiling
TOO_MUCH = 2.0  # multiple of the guess that overloads a server; if it doesn't, twice as much is next
UNKNOWN_S = 0.1  # service time if nothing is known
OF_SATURATION = 0.9  # next guess, as a share of the rate under overload
ABOVE_SATURATION = 1.15  # the knee is below this multiple of the rate under overload
NEAR_KNEE = (0.97, 0.9, 0.94)  # rates of the next steps in turn, as shares of the estimated knee
# Without a replay: multiples of the highest rate that met the goals, or the lowest that did not.
STEPS_UP, STEPS_DOWN = 2.0, 0.25
TRIED = 2  # steps that must miss the goals before the rate goes down that fast
INSIDE = 0.2  # position between the highest rate that met the goals and the lowest that did not, if they are far apart
GAP = 1.25  # ratio from which on they are far apart
# Multiples of the median estimate of the knee: a far end of its interval, and the rate to offer then.
FAR, BESIDE = 1.6, 1.25
QUANTILES = (0.5, 0.3, 0.7)  # rates of the next steps in turn, as quantiles of the knee
ENDS = 0.02  # a rate this near to the lowest or highest one counts as equal
MOST_SPREAD = 0.3  # standard deviation of the replicates' logarithms; beyond it a replay is not used
MOST_PERCENT = 99.9  # percentile that replaces a maximum
POINTS = 1500  # points of the grid of rates


class Search:
    """The steps of one server, and the distribution of its knees."""

    def __init__(self, result: Result, case: Case, task_s: float = 0.0) -> None:
        self.case, self._result = case, result
        self._own = [step for step in result.steps if step.case == case]
        self.goals = tuple(goal(text) for text in self._own[0].goals) if self._own else ()
        everything = [Offered(step) for step in self._own]
        self.title = self._own[0].record.title if self._own else ""
        self.failed = [one for one in everything if one.failure]
        sound = [one for one in everything if not one.failure]
        self.limited = [one for one in sound if one.is_limited(list(self.goals))]
        self.sound = [one for one in sound if one not in self.limited]
        speeds = [one.speed for one in map(Offered, result.steps) if one.speed]
        self.usual = float(np.mean(speeds)) if speeds else None
        self.ceiling = self._ceiling()
        self._guess = self._guessed(task_s)
        self.least = min(LEAST_PER_S, LEAST_OF_GUESS * self._guess)
        self.most = self._highest()

    def _ceiling(self) -> float | None:
        """Return the rate of the task at the usual speed of the machine, with no server at all."""
        found = next((one for one in self._result.records if one.is_ceiling and one.case.covers(self.case)), None)
        if found is None or found.failure is not None or (per_s := Round(found).rate.per_s) is None:
            return None
        speeds, shares = speeds_of(found), [one.follows_speed for one in self.sound]
        if not speeds or not self.usual or not shares:
            return per_s
        return per_s * float((self.usual / speeds.mean(0.0, found.load_s or 1.0)) ** np.median(shares))

    def _guessed(self, task_s: float) -> float:
        """Return the first guess, from the ceiling or the unloaded response time."""
        if self.ceiling:
            return GUESS * self.ceiling
        seen = [one.record.idle_answer_s for one in self.sound if one.record.idle_answer_s]
        idle_s = min(seen, default=task_s or UNKNOWN_S)
        return min(MOST_PER_S / 2, GUESS * self._result.environment.usable_cpus / max(1e-4, idle_s))

    def _highest(self) -> float:
        """Where the search ends: at the ceiling of a task that computes, at the rate that the generator can't offer."""
        shares = [one.follows_speed for one in self.sound]
        computes = not shares or float(np.median(shares)) >= CPU_BOUND
        most = BEYOND * self.ceiling if self.ceiling and computes else MOST_PER_S
        return max(2 * self.least, min([most, *(BELOW_LIMIT * one.per_s for one in self.limited)]))

    def usual_rate(self, one: Offered) -> float:
        """Return the rate that would have been as much work at the machine's usual speed."""
        return one.per_s * (self.usual / one.speed) ** one.follows_speed if self.usual and one.speed else one.per_s

    @cached_property
    def queue(self) -> Queue | None:
        """What a replay needs; None where the server is no queue that explains its steps."""
        outcomes = {outcome for step in self.sound for outcome in step.step.arrivals.outcome}
        if not outcomes or outcomes & {"lost", "wrong"}:
            return None
        follows = float(np.median([step.follows_speed for step in self.sound]))
        exponent = EXPONENT * follows if follows > SLEEPS else 0.0
        found = queue_from([step.seen(self.usual, exponent) for step in self.sound])
        return found if found and found.is_alike else None

    @cached_property
    def knees(self) -> dict[Goal, Knee]:
        """Return the rate at which each goal is first missed."""
        return {goal: found for goal in self.goals if (found := self._knee(goal)) is not None}

    def _knee(self, goal: Goal) -> Knee | None:
        kind, percent = percentile_of(goal)
        if self.queue and kind == "response":
            rates = self.queue.rates(min(percent, MOST_PERCENT), goal.limit)
            if np.std(np.log(rates)) < MOST_SPREAD:
                return knee_of_replicates(rates)
        is_counted = any(step.missed(goal)[0] for step in self.sound if step.lost)
        looks = []
        for step in self.sound:
            if (excess := step.excess(goal)) is not None:
                counted = step.missed(goal) if is_counted else (0, 0.0)
                looks.append(Look(self.usual_rate(step), excess, step.step.broke and excess > 0, *counted))
        if not looks:
            return None
        most, guess = self._saturation(goal)
        return knee(looks, self.least, max(most, 2 * self.least), min(most, max(self.least, guess)))

    def _saturation(self, goal: Goal) -> tuple[float, float]:
        """Return a rate that the knee is not above, and a guess, from what an overloaded server answered."""
        missed = [step for step in self.sound if (step.excess(goal) or 0.0) > 0 and step.answered]
        if not missed or not goal.figure.startswith("response_"):
            return self.highest, self._guess
        most = max(missed, key=lambda step: step.answered_per_s)
        if not most.keeps_pace:
            return self.highest, math.sqrt(most.answered_per_s * most.per_s)
        held = max((step.per_s for step in self.sound if not self._missed(step)), default=0.0)
        return min(self.highest, ABOVE_SATURATION * max(most.answered_per_s, held)), OF_SATURATION * most.answered_per_s

    @property
    def highest(self) -> float:
        """Return the highest rate at which a knee may lie: one that was offered, even if it may not be again."""
        return max([self.most, *(step.per_s for step in self.sound)])

    def quantile(self, share: float) -> float:
        """Return that quantile of the lowest of all knees, as if they were independent."""
        rates = np.geomspace(self.least, self.highest, POINTS)
        above = np.prod([1 - one.below(rates) for one in self.knees.values()], axis=0)
        return float(np.exp(np.interp(share, 1 - above, np.log(rates))))

    def wanted(self, budget_s: float) -> tuple[float, float] | None:
        """Return the next rate and for how long, as the function."""
        used_s = sum(step.record.case_s or 0.0 for step in self._own)
        beside_s = max((_beside_s(step) for step in self._own), default=BESIDE_S)
        time_s = budget_s * (LONG if self._is_overloaded else OVERLOAD)
        time_s = min(time_s, budget_s - used_s - beside_s - self._patience_s())
        if self.failed or len(self._own) >= MOST or (time_s < LEAST * budget_s and self._own) or self._is_known():
            return None
        rate = self._next_rate()
        return rate, min(time_s, max(MOST_REQUESTS / rate, 0.02 * budget_s))

    @property
    def _is_overloaded(self) -> bool:
        return any(map(self._missed, self.sound))

    def _is_known(self) -> bool:
        """Return whether the interval is narrow, or the knee lies beyond all rates that may be offered."""
        if not self.sound:
            return False
        if any(step.per_s <= self.least * (1 + ENDS) and self._missed(step) for step in self.sound):
            return True
        if not self._is_overloaded:
            return any(step.per_s >= self.most * (1 - ENDS) for step in self.sound)
        low, high = map(self.quantile, INTERVAL)
        return len(self._own) >= FEWEST and high / low < SURE

    def _next_rate(self) -> float:
        """Return the next rate: first an overload, then rates near the knee."""
        count = len(self._own)
        if not self._is_overloaded:
            return min(self.most, self._guess * TOO_MUCH ** (1 + len(self.sound)))
        middle = self.quantile(0.5)
        if self._first_to_break().is_replayed:
            return min(self.most, max(self.least, NEAR_KNEE[count % len(NEAR_KNEE)] * middle))
        low, high = map(self.quantile, INTERVAL)
        return self._clamped(self._most_telling(low, high, count))

    def _most_telling(self, low: float, high: float, count: int) -> float:
        """Return where the knee may be; or first a little beyond, or below, if nothing clear was seen there yet."""
        middle = self.quantile(0.5)
        if high > FAR * middle and not any(one.step.broke and one.per_s <= FAR * middle for one in self.sound):
            return BESIDE * middle
        if low < middle / FAR and not any(not self._missed(one) and one.per_s >= middle / FAR for one in self.sound):
            return middle / BESIDE
        return self.quantile(QUANTILES[count % len(QUANTILES)])

    def _patience_s(self) -> float:
        """Return how long the last requests of a step may be waited for."""
        return max((PATIENCE * one.limit for one in self.goals if one.figure.startswith("response_")), default=0.0)

    def _clamped(self, rate: float) -> float:
        """Limit how far a rate is from the rates already offered."""
        every = [one.per_s for one in self.sound if self._missed(one)]
        missed = min(every, default=math.inf)
        held = max((one.per_s for one in self.sound if not self._missed(one)), default=0.0)
        if 0 < GAP * held < missed < math.inf:  # whatever is thought of it: between the two nobody has looked
            part = (missed / held) ** INSIDE
            rate = min(missed / part, max(held * part, rate))
        if held:
            rate = min(rate, STEPS_UP * held)
        elif len(every) >= TRIED:
            rate = min(rate, STEPS_DOWN * missed)
        return min(self.most, max(self.least, rate))

    def interval(self) -> tuple[float | None, float | None]:
        """Return its ends; None where the knee lies beyond all rates that may be offered."""
        low, high = map(self.quantile, INTERVAL)
        held = max((one.per_s for one in self.sound if not self._missed(one)), default=None)
        if held is None and not self._first_to_break().is_replayed:
            return None, min(one.per_s for one in self.sound)
        if held is not None and not self._is_overloaded and max(held, high) >= self.most * (1 - ENDS):
            return min(low, held), None
        return low, high

    def steady(self) -> float | None:
        """Return the estimate for a machine of constant speed, where that is another one."""
        goal = self.breaks()
        if not (self.queue and self.knees[goal].is_replayed and self.queue.follows_speed):
            return None
        percent = percentile_of(goal)[1]
        return float(np.median(self.queue.rates(min(percent, MOST_PERCENT), goal.limit, is_steady=True)))

    def _first_to_break(self) -> Knee:
        return self.knees[self.breaks()]

    def breaks(self) -> Goal:
        """Return the goal with the lowest knee; of those missed at the lowest rate already, the one missed most."""
        lowest = min(self.sound, key=lambda one: one.per_s)
        missed = [
            goal for goal, its in self.knees.items() if not its.is_replayed and (lowest.excess(goal) or -1.0) >= 0
        ]
        if missed:
            return max(missed, key=lambda goal: lowest.excess(goal) or 0.0)
        return min(self.knees, key=lambda goal: self.knees[goal].rate(0.5))

    def _missed(self, one: Offered) -> bool:
        return any((one.excess(each) or -1.0) >= 0 for each in self.goals)


def _beside_s(step: RateStep) -> float:
    return max(0.0, (step.record.case_s or 0.0) - step.seen_until_s)


WIDE = 1.35  # upper ÷ lower end; beyond it (±15 %) the result is undecided
USUAL_STEPS = 5  # steps per server
OK, FAILED, UNDECIDED = "ok", "failed", "undecided"


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of a server."""

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
        """Return whether a goal is missed even at the lowest rate."""
        lowest = min((one.per_s for one in self.steps), default=math.inf)
        return self.holds is None and lowest <= self.least_per_s * (1 + ENDS)

    @property
    def at(self) -> Offered | None:
        """The step that is the nearest to the rate that it holds, of those at which it held."""
        held = [one for one in self.steps if self.holds and not self.missed_at(one)]
        return max(held, key=lambda one: -abs(math.log(one.per_s / (self.holds or 1.0))), default=None)

    def missed_at(self, one: Offered) -> list[Goal]:
        """Return the goals that did not hold in that step."""
        return [each for each in self.goals if (excess := one.excess(each)) is not None and excess >= 0]

    @property
    def in_time_s(self) -> float:
        """Return the latency limit for goodput: the strictest of all goals."""
        return min((one.limit for one in self.goals if one.figure.startswith("response_")), default=math.inf)

    @property
    def of_ceiling(self) -> float | None:
        """Return the capacity as a share of the ceiling."""
        return self.per_s / self.ceiling_per_s if self.per_s and self.ceiling_per_s else None


def capacities(result: Result) -> list[Capacity]:
    """Return the capacity of every server and task, ordered by server number."""
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
    """Return the next rate and its duration; None if the capacity is known or the time is up."""
    return Search(result, case, task_s).wanted(budget_s)


def exit_code(result: Result) -> int:
    """Return 1 if a search failed, 3 if one is undecided, else 0."""
    verdicts = {one.verdict for one in capacities(result)}
    return 1 if FAILED in verdicts else 3 if UNDECIDED in verdicts else 0
