"""The capacity of each server: the highest rate of arrivals at which all goals hold, as an interval; and what to offer
next while that is still sought."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from common.model.case import Case
from common.model.goal import Goal, goal
from common.model.record import Result, Step
from common.report.figures.knee import INTERVAL, Knee, Look, knee, queue_of
from common.report.figures.offers import PERCENTS, Offered
from common.report.figures.rounds import Round
from common.report.figures.speed import speeds_of

SURE = 1.06  # the interval is narrow enough if its ends are no farther apart
FEWEST, MOST, USUAL_STEPS = 4, 12, 6  # steps of a server
SHORT, LONG, LEAST = 1 / 12, 1 / 6, 1 / 20  # of its budget: how long a step is at first, later, and at the least
FIRST_SHORT = 2
MOST_REQUESTS = 3000  # of a step
PATIENCE = 1.1  # times the longest limit
BESIDE_S = 1.5  # of a step, for starting and stopping, before that is known
LEAST_PER_S, LEAST_OF_GUESS = 1.0, 0.1  # offered to any server
BEYOND = 1.25  # times the ceiling there is nothing to be sought, where the task needs a CPU
MOST_PER_S = 2000.0  # that the generator is asked for
BELOW_LIMIT = 0.7  # of a rate that the generator could not offer is the highest that is still sought
COMPUTES = 0.5  # of an answer is CPU time: then the ceiling is a limit
GUESS = 0.7  # of the ceiling
UNKNOWN_S = 0.1  # what an answer takes where nobody knows
GUESS_BEYOND = 0.9  # of the answers that came at a rate that was too high
STEPS_UP, STEPS_DOWN = 2.0, 0.25  # times the highest rate that held, or else the lowest that did not, is the next one
TRIED = 2  # steps that all missed, before it is gone down faster than where the knee may be
INSIDE = 0.2  # of the way between the highest that held and the lowest that did not, where they are far apart
FAR, BESIDE = 1.6, 1.25  # times the middle of where the knee may be: how far an end is, and where is looked then
QUANTILES = (0.5, 0.3, 0.7)  # of where the knee may be, that are offered in turn
ENDS = 0.02  # so near to the least or the highest rate that was in question is there

WIDE = 1.25  # from one end to the other: then it is not decided well
OK, FAILED, UNDECIDED = "ok", "failed", "undecided"


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a server can take."""

    case: Case
    title: str
    goals: tuple[Goal, ...]
    steps: tuple[Offered, ...]  # sound ones, by rising rates
    holds: float | None  # per second; None: not even at the lowest rate
    fails: float | None  # None: nowhere that was offered
    breaks: Goal | None  # the goal that is missed first
    ceiling_per_s: float | None
    least_per_s: float  # that is offered
    most_per_s: float  # that could be offered
    usual_speed: float | None
    limited: Offered | None = None  # the lowest rate that the generator could not offer
    failure: str = ""

    @property
    def verdict(self) -> str:
        """`undecided` where the interval is wide: its upper end more than a quarter above the lower one."""
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
        return self.holds / self.ceiling_per_s if self.holds and self.ceiling_per_s else None


def capacities(result: Result) -> list[Capacity]:
    """Of every server at every task, in the order of their numbers."""
    cases = list(dict.fromkeys(step.case for step in result.steps))
    return [_Search(result, case).capacity() for case in sorted(cases, key=_place)]


def _place(case: Case) -> tuple[float, str, str]:
    number = case.server.rpartition("/")[2].split("_")[0]
    return (int(number) if number.isdecimal() else math.inf), case.server, repr(case.values)


def wanted(result: Result, case: Case, budget_s: float, task_s: float) -> tuple[float, float] | None:
    """What is to be offered next, and for how long; None: it is known well enough, or there is no time left."""
    return _Search(result, case, task_s).wanted(budget_s)


def exit_code(result: Result) -> int:
    """1 if a server could not be searched, 3 if it could not be decided well, else 0: its nature is no fault."""
    verdicts = {one.verdict for one in capacities(result)}
    return 1 if FAILED in verdicts else 3 if UNDECIDED in verdicts else 0


class _Search:
    """All steps of one server, and where its knees may be."""

    def __init__(self, result: Result, case: Case, task_s: float = 0.0) -> None:
        self.case, self._result = case, result
        self._own = [step for step in result.steps if step.case == case]
        self._goals = tuple(goal(text) for text in self._own[0].goals) if self._own else ()
        everything = [Offered(step) for step in self._own]
        self._failed = [one for one in everything if one.failure]
        sound = [one for one in everything if not one.failure]
        self._limited = [one for one in sound if one.is_limited(list(self._goals))]
        self._sound = [one for one in sound if one not in self._limited]
        speeds = [one.speed for one in map(Offered, result.steps) if one.speed]
        self._usual = float(np.mean(speeds)) if speeds else None
        self.ceiling = self._ceiling()
        self._guess = self._guessed(task_s)
        self.least = min(LEAST_PER_S, LEAST_OF_GUESS * self._guess)
        self.most = self._highest()

    def _ceiling(self) -> float | None:
        """What the machine can do of it at its usual speed, with no server at all."""
        found = next((one for one in self._result.records if one.is_ceiling and one.case.covers(self.case)), None)
        if found is None or found.failure is not None or (per_s := Round(found).rate.per_s) is None:
            return None
        speeds, shares = speeds_of(found), [one.follows_speed for one in self._sound]
        if not speeds or not self._usual or not shares:
            return per_s
        return per_s * float((self._usual / speeds.mean(0.0, found.load_s or 1.0)) ** np.median(shares))

    def _guessed(self, task_s: float) -> float:
        """Before anything was offered: from the ceiling, or what an answer takes."""
        if self.ceiling:
            return GUESS * self.ceiling
        seen = [one.record.idle_answer_s for one in self._sound if one.record.idle_answer_s]
        idle_s = min(seen, default=task_s or UNKNOWN_S)
        return min(MOST_PER_S / 2, GUESS * self._result.environment.usable_cpus / max(1e-4, idle_s))

    def _highest(self) -> float:
        """Where the search ends: at the ceiling of a task that computes, at the rate that the generator can't offer."""
        shares = [one.follows_speed for one in self._sound]
        computes = not shares or float(np.median(shares)) >= COMPUTES
        most = BEYOND * self.ceiling if self.ceiling and computes else MOST_PER_S
        return max(2 * self.least, min([most, *(BELOW_LIMIT * one.per_s for one in self._limited)]))

    def usual_rate(self, one: Offered) -> float:
        """The rate that would have been as much to do at the machine's usual speed."""
        return one.per_s * (self._usual / one.speed) ** one.follows_speed if self._usual and one.speed else one.per_s

    @cached_property
    def knees(self) -> dict[Goal, Knee]:
        """Where each goal begins to be missed."""
        return {one: found for one in self._goals if (found := self._knee(one)) is not None}

    def _knee(self, one: Goal) -> Knee | None:
        percent = PERCENTS.get(one.figure.removesuffix("_s").rpartition("_")[2], 99.0)
        is_counted = any(step.missed(one)[0] for step in self._sound if step.lost)
        looks = []
        for step in self._sound:
            if (excess := step.excess(one)) is not None:
                arrivals, per_s = np.asarray(step.step.arrivals.due_s), self.usual_rate(step)
                is_cut = step.step.broke and not one.figure.startswith("ping_")  # pings are waited for in any case
                until = step.step.seen_until_s * step.per_s if is_cut else math.inf
                broke = step.step.broke and excess > 0
                counted = step.missed(one) if is_counted else (0, 0.0)
                queue = queue_of(arrivals * step.per_s, percent, until)
                looks.append(Look(per_s, excess, queue, broke, *counted))
        return knee(looks, percent, self.least, self.most, self._guess_for(one)) if looks else None

    def _guess_for(self, one: Goal) -> float:
        """What came in at rates that were too high for it is about what can be."""
        is_of_answers = not one.figure.startswith("ping_")
        missed = [each for each in self._sound if is_of_answers and (each.excess(one) or 0.0) > 0]
        broke = [each for each in missed if each.step.broke and each.answered]
        came = [GUESS_BEYOND * each.answered / each.step.seen_until_s for each in broke]
        return min(self.most, max(self.least, min(came, default=self._guess)))

    def quantile(self, share: float) -> float:
        """Of the lowest of all knees: they are taken for independent."""
        rates = np.geomspace(self.least, self.most, 600)
        above = np.prod([1 - one.below(rates) for one in self.knees.values()], axis=0)
        return float(np.exp(np.interp(share, 1 - above, np.log(rates))))

    def wanted(self, budget_s: float) -> tuple[float, float] | None:
        """As the function."""
        used_s = sum(step.record.case_s or 0.0 for step in self._own)
        count = len(self._own)
        if self._failed or count >= MOST:
            return None
        beside_s = max((_beside_s(step) for step in self._own), default=BESIDE_S)
        time_s = budget_s * (SHORT if count < FIRST_SHORT else LONG)
        time_s = min(time_s, budget_s - used_s - beside_s - self._patience_s())
        if time_s < LEAST * budget_s and count:
            return None
        if any(one.per_s <= self.least * (1 + ENDS) and self._missed(one) for one in self._sound):
            return None
        if not self._sound:
            rate = min(self.most, self._guess)
        else:
            low, high = (self.quantile(share) for share in INTERVAL)
            if count >= FEWEST and high / low < SURE:
                return None
            rate = self._clamped(self._most_telling(low, high, count))
        return rate, min(time_s, max(MOST_REQUESTS / rate, 0.02 * budget_s))

    def _most_telling(self, low: float, high: float, count: int) -> float:
        """Where the knee may be; or first a little beyond, or below, if nothing clear was seen there yet."""
        middle = self.quantile(0.5)
        if high > FAR * middle and not any(one.step.broke and one.per_s <= FAR * middle for one in self._sound):
            return BESIDE * middle
        if low < middle / FAR and not any(not self._missed(one) and one.per_s >= middle / FAR for one in self._sound):
            return middle / BESIDE
        return self.quantile(QUANTILES[count % len(QUANTILES)])

    def _patience_s(self) -> float:
        """How long the last requests of a step may be waited for."""
        return max((PATIENCE * one.limit for one in self._goals if one.figure.startswith("response_")), default=0.0)

    def _clamped(self, rate: float) -> float:
        """Not too far at once."""
        every = [one.per_s for one in self._sound if self._missed(one)]
        missed = min(every, default=math.inf)
        held = max((one.per_s for one in self._sound if not self._missed(one)), default=0.0)
        if 0 < WIDE * held < missed < math.inf:  # whatever is thought of it: between the two nobody has looked
            part = (missed / held) ** INSIDE
            rate = min(missed / part, max(held * part, rate))
        if held:
            rate = min(rate, STEPS_UP * held)
        elif len(every) >= TRIED:
            rate = min(rate, STEPS_DOWN * missed)
        return min(self.most, max(self.least, rate))

    def capacity(self) -> Capacity:
        """What is known of it."""
        holds: float | None = None
        fails: float | None = None
        breaks = None
        knees = self.knees
        if knees:
            holds, fails = self._interval()
            breaks = self._first_to_break(knees)
        failure = self._failed[0].failure if self._failed else ""
        failure = failure or ("" if self._sound else "the generator could not offer any rate in time")
        return Capacity(
            case=self.case,
            title=self._own[0].record.title,
            goals=self._goals,
            steps=tuple(sorted(self._sound, key=lambda one: one.per_s)),
            holds=holds if not failure else None,
            fails=fails if not failure else None,
            breaks=breaks if fails and not failure else None,
            ceiling_per_s=self.ceiling,
            least_per_s=self.least,
            most_per_s=self.most,
            usual_speed=self._usual,
            limited=min(self._limited, key=lambda one: one.per_s, default=None),
            failure=failure,
        )

    def _interval(self) -> tuple[float | None, float | None]:
        """The ends; None where the knee lies beyond all rates that were in question."""
        low, high = (self.quantile(share) for share in INTERVAL)
        held = max((one.per_s for one in self._sound if not self._missed(one)), default=None)
        if held is None:
            return None, min(one.per_s for one in self._sound)
        if high >= self.most * (1 - ENDS) and held is not None and not any(map(self._missed, self._sound)):
            return min(low, held), None
        return low, high

    def _first_to_break(self, knees: dict[Goal, Knee]) -> Goal:
        """With the lowest knee; of those that are missed at the lowest rate already the one that is missed most."""
        lowest = min(self._sound, key=lambda one: one.per_s)
        missed = [one for one in knees if (lowest.excess(one) or -1.0) >= 0]
        if missed:
            return max(missed, key=lambda one: lowest.excess(one) or 0.0)
        return min(knees, key=lambda one: knees[one].rate(0.5))

    def _missed(self, one: Offered) -> bool:
        return any((one.excess(each) or -1.0) >= 0 for each in self._goals)


def _beside_s(step: Step) -> float:
    return max(0.0, (step.record.case_s or 0.0) - step.seen_until_s)
