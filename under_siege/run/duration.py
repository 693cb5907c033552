"""Decide how long a siege lasts: as requested, or (`auto`) as long as the case needs."""

import math
from collections.abc import Iterable
from dataclasses import replace

from common.cpus import usable_cpus
from under_siege.model.case import Case
from under_siege.run.plan import Plan, ProgressListener
from under_siege.targets.expectation import Expectation, Expectations

# Shorter sieges would more often rank equal servers differently on a machine whose speed changes.
LEAST_S = 3.0
SETTLED_USERS = 0.9  # as in the report, the settled part starts when this share of the users has had an answer
# A siege lasts this many times the time until then: more than one and a half cycles of request and answer after it.
# Rates of shorter sieges are less accurate on a slow machine.
TIMES_SETTLED = 2.75
SLOWER = 2.0  # a server that takes this many times as long as one task after the other is not waited for
CYCLES_OF_A_BURST = 10  # cycles of request and answer, if the server performs one task at a time
MOST_BURSTS = 8
BESIDES_S = 1.5  # seconds for starting, warming up and stopping in each case
LEAST_ROUNDS = 2
# A run without a fixed number of rounds may take MORE_ROUNDS times as long as two rounds, within these limits. If two
# rounds take more than MUCH_LONGER times the upper limit, they are not cut; if a little more, clear losers get one.
MORE_ROUNDS, LEAST_BUDGET_S, LIMIT_S, MUCH_LONGER = 1.5, 40.0, 150.0, 2.0
CPU_BOUND = 0.2  # the share of CPU time in a CPU-bound task on a busy machine


class Length:
    """Decides when a siege ends, from the answers that have arrived."""

    def __init__(self, asked_s: float | None, users: int, expected: Expectation) -> None:
        self._is_fixed = asked_s is not None
        self._needed = max(1, round(SETTLED_USERS * users))
        self._answered: set[int] = set()
        self._burst_s = CYCLES_OF_A_BURST / TIMES_SETTLED * most_needed_s(users, expected)
        self.end_s = asked_s or max(LEAST_S, SLOWER * most_needed_s(users, expected))  # since it began

    def answer(self, user: int, at_s: float) -> None:
        """Take note that a user got an answer."""
        if self._is_fixed or len(self._answered) >= self._needed:
            return
        self._answered.add(user)
        if len(self._answered) >= self._needed:
            self.end_s = min(self.end_s, max(LEAST_S, TIMES_SETTLED * at_s))

    def bursts(self, least_s: float) -> tuple[int, float]:
        """Return how many bursts the siege is cut into, none shorter than `least_s`, and how long each of them is.

        What is in flight at the end of a burst is lost, and delays the next one. So there are few bursts, or one, if a
        user may have to wait for long.
        """
        count = max(1, min(MOST_BURSTS, int(self.end_s / max(least_s, self._burst_s))))
        return count, self.end_s / count


def most_needed_s(users: int, expected: Expectation) -> float:
    """Return the time a server needs if it performs one task at a time, checks included."""
    return TIMES_SETTLED * (users + 1) * max(expected.task_s, expected.cpu_s)


def least_needed_s(users: int, cpus: int, expected: Expectation) -> float:
    """Return the time a server needs if it uses every CPU and overlaps all waits."""
    return TIMES_SETTLED * max(expected.task_s, users * expected.cpu_s / cpus)


def run_length_s(plan: Plan, cpus: int, expectations: Expectations, rounds: int) -> tuple[float, float]:
    """Return the minimum and the maximum duration of this many rounds."""
    least_s = most_s = 0.0
    for case in (*plan.ceilings, *plan.cases):
        expected = expectations[case.work]
        least_s += BESIDES_S + (plan.load.time_s or max(LEAST_S, least_needed_s(case.users, cpus, expected)))
        most_s += BESIDES_S + (plan.load.time_s or max(LEAST_S, most_needed_s(case.users, expected)))
    return rounds * least_s, rounds * most_s


def budget_s(plan: Plan, cpus: int, expectations: Expectations) -> float:
    """Return the time limit of a run that continues until the ranks are clear.

    That is time for two rounds of everything, and for some more rounds of close cases.
    """
    # Other programs may have kept a CPU-bound task waiting when it was tried.
    undisturbed = {
        work: replace(each, task_s=each.cpu_s) if each.cpu_s > CPU_BOUND * each.task_s else each
        for work, each in expectations.items()
    }
    _, needed_s = run_length_s(plan, cpus, undisturbed, LEAST_ROUNDS)
    if needed_s > MUCH_LONGER * LIMIT_S:
        return needed_s
    return min(max(LEAST_BUDGET_S, MORE_ROUNDS * needed_s), LIMIT_S)


def in_words(least_s: float, most_s: float) -> str:
    """Format a range such as `about 2 min` or `2 to 7 min`."""
    least, most = (f"{limit_s:.0f} s" if limit_s < 100 else f"{limit_s / 60:.0f} min" for limit_s in (least_s, most_s))
    return f"about {least}" if most_s < 1.3 * least_s else f"{least} to {most}"


def too_short_for(plan: Plan, expectations: Expectations) -> Iterable[tuple[Case, float]]:
    """Return the cases for which the given time is too short, one of each job, and the time that they need."""
    needed: dict[object, tuple[Case, float]] = {}
    for case in plan.cases:
        least_s = most_needed_s(case.users, expectations[case.work])
        if plan.load.time_s is not None and plan.load.time_s < least_s > needed.get(case.job, (case, 0.0))[1]:
            needed[case.job] = case, float(math.ceil(least_s))
    return needed.values()


def say_how_long(
    plan: Plan, expectations: Expectations, watcher: ProgressListener, *, most_s: float = math.inf
) -> None:
    """Announce how long the run will take, and warn about tasks that are too long for the sieges.

    Args:
        most_s: the time budget of a run whose number of rounds is not fixed.
    """
    for case, least_s in too_short_for(plan, expectations):
        what = case.task or plan.load_of(case).path
        watcher.warn(
            f"--time {plan.load.time_s:g}s is short for {what} with {case.users} users: "
            f"use --time auto, or {least_s:.0f}s or more"
        )
    if plan.load.requests is not None:
        return
    rounds = LEAST_ROUNDS if most_s < math.inf else plan.rounds
    shortest_s, longest_s = run_length_s(plan, usable_cpus(), expectations, rounds)
    if most_s < math.inf:
        about = in_words(shortest_s, min(longest_s, most_s))
        watcher.say(f"{len(plan.cases)} cases take {about}; close contests get more rounds, up to {most_s:.0f} s")
        return
    sieges = "1 siege takes" if plan.turns() == 1 else f"{plan.turns()} sieges take"
    watcher.say(f"{sieges} {in_words(shortest_s, longest_s)}")
