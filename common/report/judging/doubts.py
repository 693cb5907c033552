"""Doubts: what on this machine, while it was measured, hides the truth, so that a case is `unclear`.

Each looks at one round and says what it saw and what to do; None if there is nothing.
"""

from common.report import numbers
from common.report.figures.estimates import ACCURACY
from common.report.figures.rounds import Round
from common.report.judging.evidence import DRIFT_OF_RATES, Evidence, is_busy, other_work
from common.report.judging.suspicions import (
    above_ceiling,
    availability,
    beside_ceiling,
    littles_law,
    paced_by_the_tool,
)

# The smallest lie that a rule has to be able to see: more than the ceiling, less time or CPU than the task needs.
SIGHT_OF_RATES, SIGHT_OF_RUNS = 0.25, 0.5
CHANGED = 1.25  # times as fast as at another moment, and a machine counts as unsteady


def busy_machine(one: Round, _: Evidence) -> str | None:
    """The machine had other work. First among the reasons, because it explains others."""
    machine = one.record.machine
    if machine is None or not is_busy(one):
        return None
    other, steal = other_work(one), machine.steal_s / machine.total_s
    return (
        f"other work took {100 * other:.0f} % of the machine's CPUs, and {100 * steal:.0f} % were stolen by "
        "other guests of its host: the rate tells of that, too; close other programs and measure again"
    )


def unsteady_machine(one: Round, evidence: Evidence) -> str | None:
    """Its speed changed; said only of a case that is in doubt anyway, as the likely cause."""
    speeds = evidence.weather.lowest_and_highest(one)
    if speeds is None or speeds[1] < CHANGED * speeds[0] or not evidence.asked(blind, one):
        return None
    return (
        f"the speed of this machine changed by a factor of {numbers.significant(speeds[1] / speeds[0], 2)} while this "
        "was measured, and no counter shows that: another guest of its host, heat, or a battery; measure again later"
    )


def too_short(one: Round, _: Evidence) -> str | None:
    return one.rate.too_short if one.rate.per_s is None else None


def no_ceiling(one: Round, _: Evidence) -> str | None:
    """Without a ceiling a lie would have no limit; that a suite names none is said once, and of no case."""
    if not one.record.has_ceiling:
        return None
    if one.ceiling is not None and (one.ceiling.rate.per_s is not None and one.ceiling.record.failure is None):
        return None
    why = "was not measured"
    if one.ceiling is not None and one.ceiling.record.failure is not None:
        why = f"failed: {one.ceiling.record.failure.message}"
    elif one.ceiling is not None:
        why = f"has no rate: {one.ceiling.rate.too_short}"
    return f"the ceiling {why}; without it nothing says what is possible here"


def doubtful_ceiling(one: Round, evidence: Evidence) -> str | None:
    if one.ceiling is None or one.ceiling is one or not one.record.has_task:
        return None  # where no work is known, a ceiling is a reference and no limit of what is possible
    about_itself = (busy_machine, littles_law, availability)
    doubts = [message for look in about_itself if (message := evidence.asked(look, one.ceiling)) is not None]
    return f"its ceiling is itself in doubt: {doubts[0]}" if doubts else None


def unsteady_ceiling(one: Round, evidence: Evidence) -> str | None:
    """More than the ceiling of its round, but not more than the ceilings of the rounds differ themselves."""
    share = evidence.weather.of_ceiling(one)
    if share is None or share <= 1 + ACCURACY + DRIFT_OF_RATES or evidence.asked(above_ceiling, one):
        return None
    if paced_by_the_tool(one):
        return None
    allowed = evidence.allowed_above_ceiling(one)
    return (
        f"{beside_ceiling(one, share)}, but up to {100 * allowed:.0f} % more may be noise here: "
        "something disturbed the ceiling; measure again"
    )


def blind(one: Round, evidence: Evidence) -> str | None:
    """The smallest lies that could still be seen, where these are too large."""
    hidden = []
    if not one.record.has_task:
        return None  # what it takes alone nobody knows, and no rule leans on it
    needs = evidence.needs(one)
    if needs is None:
        hidden.append("an answer without any work (how long the task takes alone is not known)")
    elif needs.allowance > SIGHT_OF_RUNS:
        hidden.append(f"an answer in {100 * max(0.0, 1 - needs.allowance):.0f} % of the time that the task takes")
    if one.ceiling is not None and one.ceiling.rate.per_s is not None:
        allowed = evidence.allowed_above_ceiling(one)
        if allowed > SIGHT_OF_RATES:
            hidden.append(f"a rate of {numbers.significant(1 + allowed, 2)} times what is possible")
    return f"too noisy to tell the truth from a lie: {' and '.join(hidden)} would not be seen" if hidden else None
