"""Compute the highest rate at which a queue of known service times meets a goal for a latency percentile.

Requests arrive as a Poisson process, wait in one queue, and are served in the order of their arrival (M/D/c and M/M/c
in Kendall's notation).
"""

import math
from collections.abc import Callable

import numpy as np

ARRIVALS = 2_000_000


def deterministic(workers: int, service_s: float) -> Callable[[float, float], float]:
    """Return a function of rate and limit that returns the share of requests that take longer in an M/D/c queue.

    With equal service times, the requests `i`, `i + c`, `i + 2c` and so on are served by the same worker (Crommelin
    1932), so each worker has a queue of its own, to which Lindley's recursion (1952) applies in closed form.
    """

    def share(per_s: float, limit_s: float) -> float:
        late, unit = 0, np.random.default_rng(1).exponential(1.0, ARRIVALS).cumsum()
        for worker in range(workers):
            due_s = unit[worker::workers] / per_s
            work_s = service_s * np.arange(len(due_s)) - due_s
            late += int(np.sum(work_s - np.minimum.accumulate(work_s) + service_s > limit_s))
        return late / ARRIVALS

    return share


def exponential(workers: int, service_s: float) -> Callable[[float, float], float]:
    """Return the same for an M/M/c queue, from Erlang's formula for the share of requests that wait (1917)."""

    def share(per_s: float, limit_s: float) -> float:
        load, blocked = per_s * service_s, 1.0
        for count in range(1, workers + 1):
            blocked = load * blocked / (count + load * blocked)
        waits = blocked / (1 - load / workers * (1 - blocked))
        rate, spare = limit_s / service_s, workers - 1 - load
        part = rate if abs(spare) < 1e-9 else -math.expm1(-rate * spare) / spare
        return math.exp(-rate) * (1 + waits * part)

    return share


def capacity(
    share: Callable[[float, float], float], saturation_per_s: float, limit_s: float, percent: float = 99.0
) -> float:
    """Return the rate at which the percentile of the latency reaches the limit, by bisection."""
    low, high = 0.0, 0.9999 * saturation_per_s
    while high > 1.0005 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle, limit_s) <= 1 - percent / 100 else (low, middle)
    return low
