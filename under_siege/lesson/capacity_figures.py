"""Amounts, and the figures of a capacity search: the sustained rate, the ceiling, and how response times grow."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from under_siege import formatting
from under_siege.capacity.capacity_result import Capacity
from under_siege.stats.estimates import Estimate

MUCH_MORE = 1.1  # times the lower bound: then the rate that held in this run is shown, too


@dataclass(frozen=True, slots=True)
class Amount:
    """A figure with its interval. The interval of a count is the count."""

    text: str
    value: float | None = None  # None: unknown, or beyond what was measured
    low: float | None = None
    high: float | None = None
    estimate: Estimate | None = None  # compared round by round with another figure of the same kind
    doubt: str = ""  # why it can't be trusted


def counted(value: float, text: str = "") -> Amount:
    """Return an amount without noise."""
    return Amount(text or f"{value:g}", value, value, value)


def held(found: Capacity) -> float:
    """Return the highest rate below the first one that missed a goal; 0 if there is none."""
    broken = min((one.per_s for one in found.steps if found.missed_at(one)), default=math.inf)
    return max((one.per_s for one in found.steps if one.per_s < broken), default=0.0)


def _capacity(found: Capacity) -> Amount:
    """Return the sustained rate, between its lower and upper bound."""
    if found.failure:
        return Amount("?", doubt=found.failure)
    text = sure = f"{formatting.rate(found.holds)}/s" if found.holds else "no rate"
    if (seen := held(found)) > MUCH_MORE * (found.holds or 0.0):
        text = f"{formatting.rate(seen)}/s in this run (lower bound: {sure})"
    low, high = found.holds or 0.0, found.fails or math.inf
    return Amount(text, found.holds or 0.0, low, high)


def _ceiling(found: Capacity) -> Amount:
    """Return the rate of a closed loop without a server."""
    if not found.ceiling_per_s:
        return Amount("?", doubt="the ceiling could not be measured")
    return counted(found.ceiling_per_s, f"{formatting.rate(found.ceiling_per_s)}/s")


def _growth(found: Capacity) -> Amount:
    """Return p99 at the highest offered rate, as a multiple of p99 at the lowest."""
    waits = [(one.per_s, one.percentile_s("response", 99)) for one in found.steps]
    known = [(per_s, wait_s) for per_s, wait_s in waits if wait_s]
    if len(known) < 2:
        return Amount("?", doubt=found.failure or "too few rates were offered")
    (low, first_s), (high, last_s) = known[0], known[-1]
    told = ["endless" if wait_s == math.inf else formatting.seconds(wait_s) for wait_s in (first_s, last_s)]
    text = f"{told[0]} at {formatting.rate(low)}/s and {told[1]} at {formatting.rate(high)}/s"
    return counted(last_s / first_s if first_s < math.inf else 1.0, text)


OF_CAPACITIES: dict[str, Callable[[Capacity], Amount]] = {
    "capacity": _capacity,
    "capacity ceiling": _ceiling,
    "capacity growth": _growth,
}
