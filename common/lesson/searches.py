"""What a search for a capacity knows: the rate that holds, the ceiling, and how the waits grow."""

import math
from collections.abc import Callable
from dataclasses import replace

from common.lesson.amount import Amount, counted
from common.lesson.noise import without
from common.report import numbers
from common.report.figures.offers import MUCH_BY_OTHERS
from common.report.judging.capacity import Capacity

SURE = 1.1  # what held in the run is more than what is sure, if it is so much more


def held(found: Capacity) -> float:
    """The highest rate that was offered before the first at which a promise was broken; 0 if there is none."""
    broken = min((one.per_s for one in found.steps if found.missed_at(one)), default=math.inf)
    return max((one.per_s for one in found.steps if one.per_s < broken), default=0.0)


def _capacity(found: Capacity) -> Amount:
    """Between the rate that holds and the one that does not."""
    if found.failure:
        return Amount("?", doubt=found.failure)
    sure = f"{numbers.rate(found.holds)}/s" if found.holds else "no rate"
    text = sure
    if (seen := held(found)) > SURE * (found.holds or 0.0):
        text = f"{numbers.rate(seen)}/s in this run ({sure} is sure)"
    low, high = found.holds or 0.0, found.fails or math.inf
    return _with_noise(Amount(text, found.holds or 0.0, low, high), found, 1.0, _slowdown(found))


def _ceiling(found: Capacity) -> Amount:
    """What as many users as it takes get who never pause."""
    if not found.ceiling_per_s:
        return Amount("?", doubt="the ceiling could not be measured")
    ceiling = counted(found.ceiling_per_s, f"{numbers.rate(found.ceiling_per_s)}/s")
    return _with_noise(ceiling, found, 1.0, _slowdown(found))


def _growth(found: Capacity) -> Amount:
    """The longest waits at the highest rate that was offered, as a multiple of those at the lowest."""
    waits = [(one.per_s, one.percentile_s("response", 99)) for one in found.steps]
    known = [(per_s, wait_s) for per_s, wait_s in waits if wait_s]
    if len(known) < 2:
        return Amount("?", doubt=found.failure or "too few rates were offered")
    (low, first_s), (high, last_s) = known[0], known[-1]
    told = ["without an end" if wait_s == math.inf else numbers.seconds(wait_s) for wait_s in (first_s, last_s)]
    text = f"{told[0]} at {numbers.rate(low)}/s and {told[1]} at {numbers.rate(high)}/s"
    growth = counted(last_s / first_s if first_s < math.inf else 1.0, text)
    return _with_noise(growth, found, 1 / _slowdown(found), _slowdown(found))


def _with_noise(amount: Amount, found: Capacity, least: float, most: float) -> Amount:
    """What else the machine did, where that was much."""
    share = _by_others(found)
    if share <= MUCH_BY_OTHERS:
        return amount
    noise = f"other programs took up to {numbers.share(share)} of the CPUs"
    return replace(amount, noise=noise, leeway=(least, most))


def _slowdown(found: Capacity) -> float:
    return without(_by_others(found))


def _by_others(found: Capacity) -> float:
    return max((one.by_others for one in found.steps), default=0.0)


OF_CAPACITIES: dict[str, Callable[[Capacity], Amount]] = {
    "capacity": _capacity,
    "capacity ceiling": _ceiling,
    "capacity growth": _growth,
}
