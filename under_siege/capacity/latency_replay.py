"""Replay measured service times to find the arrival rate at which a percentile of the latency reaches its limit.

Every answer tells how long its request was served: from when a worker was free for it until it was answered. That is
Lindley's recursion (1952), inverted; with several workers it is that of Kiefer and Wolfowitz (1955). Some hundred such
times, replayed at other rates, tell more than the few percentiles of the steps that they come from. They are drawn in
blocks, because neighbours are alike where the speed of the machine changes; a block bootstrap (Künsch 1989) gives the
interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHORT_BLOCK, LONG_BLOCK = 5, 80  # requests; the long ones keep slow episodes of the machine together
FEWEST = 40  # service times
REPLICATES, REQUESTS = 60, 1500
WARM_UP = 200  # requests of a replay, which begins with an empty queue
FULL = 0.999  # utilisation
FULL_QUEUE = 90.0  # percentile of the waits where requests are refused
HALVINGS = 9  # of the rates in question
WORKERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # that a server may have
TRIES = 30  # replays of each step, to see whether they look like it
CHECKED = (50.0, 90.0, 99.0)  # percentiles
EXACT = 0.1  # smaller differences of their logarithms don't count
ALIKE = 2.0  # standard deviations, root mean square: beyond it the server is no such queue
INDEPENDENT = math.log(2)  # a larger difference is not noise
FEWEST_OF_STEP = 20  # service times, whose mean tells something
TINY_S = 1e-6


@dataclass(frozen=True, slots=True)
class Seen:
    """The requests of one step, by arrival."""

    due_s: Floats
    wait_s: Floats  # until the answer, or until nobody waited any more; infinite if it was refused
    is_answered: NDArray[np.bool_]
    slowness: Floats  # how much longer each was served than at the usual speed of the machine; 1 for what only waits


@dataclass(frozen=True, slots=True)
class Queue:
    """Workers with one queue, and their service times."""

    workers: int
    usual_s: Floats  # at the usual speed of the machine
    real_s: Floats  # as the machine was, but for its mean
    mismatch: float  # of its replays and the steps, in standard deviations
    dependence: float  # on the load: how far the mean service times of the steps are apart, as a logarithm
    follows_speed: bool
    most_wait_s: float = math.inf  # a request that would wait longer before it is served is refused

    @property
    def is_alike(self) -> bool:
        """Whether a replay looks like what was measured."""
        return self.mismatch <= ALIKE and self.dependence <= INDEPENDENT

    def rates(self, percent: float, limit_s: float, *, is_steady: bool = False) -> Floats:
        """Return the rates at which the percentile reaches the limit: one for each bootstrap replicate."""
        times_s, block = (
            (self.usual_s, SHORT_BLOCK) if is_steady else (self.real_s, min(LONG_BLOCK, len(self.real_s) // 4))
        )
        random = np.random.default_rng(len(times_s))
        pool = np.broadcast_to(times_s, (REPLICATES, len(times_s)))
        resampled = _drawn(pool, len(times_s), block, random)
        served_s = _drawn(np.concatenate([pool, resampled]), REQUESTS, block, random)
        unit = random.exponential(1, (REPLICATES, REQUESTS)).cumsum(axis=1)
        return self._rates(np.concatenate([unit, np.broadcast_to(unit[0], unit.shape)]), served_s, percent, limit_s)

    def _rates(self, unit: Floats, served_s: Floats, percent: float, limit_s: float) -> Floats:
        """Bisect for the rate of the first half of the rows together and of each of the others, which scatter about it.

        The rows of the second half share their arrivals, so that only the service times make them differ.
        """
        most = FULL * self.workers / served_s.mean(axis=1)
        most[:REPLICATES] = most[:REPLICATES].mean()
        least = np.zeros(len(most))
        for _ in range(HALVINGS):
            middle = (least + most) / 2
            waits = replayed(unit / middle[:, None], served_s, self.workers, self.most_wait_s)[:, WARM_UP:]
            reached = np.percentile(waits, percent, axis=1, method="higher")
            reached[:REPLICATES] = np.percentile(waits[:REPLICATES], percent, method="higher")
            is_kept = reached <= limit_s
            least, most = np.where(is_kept, middle, least), np.where(is_kept, most, middle)
        rate, scattered = np.split((least + most) / 2, 2)
        return np.asarray(rate * scattered / np.median(scattered))


def queue_from(steps: Sequence[Seen], workers: Sequence[int] = WORKERS) -> Queue | None:
    """Return the queue whose replay looks most like the steps; None where too few requests were answered."""
    if sum(int(step.is_answered.sum()) for step in steps) < FEWEST:
        return None
    best = _queue(steps, workers[0])
    for count in workers[1:]:
        other = _queue(steps, count)
        if best.is_alike and other.mismatch > best.mismatch:
            break
        best = min(best, other, key=lambda queue: queue.mismatch)
    return best


def _queue(steps: Sequence[Seen], workers: int) -> Queue:
    if workers == 1:  # which serves them in the order of the answers, even if that is not the order of arrival
        steps = [_by_answer(step) for step in steps]
    waited, served = zip(*(service_times(step, workers) for step in steps), strict=True)
    usual = [np.asarray(times / step.slowness[step.is_answered]) for times, step in zip(served, steps, strict=True)]
    slowness = np.concatenate([step.slowness[step.is_answered] for step in steps])
    pooled = np.concatenate(usual)
    full = [times for times, step in zip(waited, steps, strict=True) if np.isinf(step.wait_s).any() and len(times)]
    most_wait_s = float(np.percentile(np.concatenate(full), FULL_QUEUE)) if full else math.inf
    differences = np.concatenate([_differences(step, pooled, workers, most_wait_s) for step in steps])
    means = [times.mean() for times in usual if len(times) >= FEWEST_OF_STEP]
    return Queue(
        workers=workers,
        usual_s=pooled,
        real_s=np.concatenate(served) / slowness.mean(),
        mismatch=math.sqrt(np.mean(differences**2)),
        dependence=float(np.ptp(np.log(means))) if means else 0.0,
        follows_speed=bool(slowness.std()),
        most_wait_s=most_wait_s,
    )


def _by_answer(step: Seen) -> Seen:
    order = np.argsort(step.due_s + step.wait_s, kind="stable")
    return Seen(step.due_s[order], step.wait_s[order], step.is_answered[order], step.slowness[order])


def service_times(step: Seen, workers: int) -> tuple[Floats, Floats]:
    """Return how long each answered request waited for a worker and was served, in seconds.

    They are taken to begin in the order of the step.
    """
    free_s, waited, served = [0.0] * workers, [], []
    for due, wait, is_answered in zip(step.due_s, step.wait_s, step.is_answered, strict=True):
        if wait == math.inf:
            continue
        begin = max(due, free_s[0])
        end = max(due + wait, begin + TINY_S)
        heapreplace(free_s, end)
        if is_answered:
            waited.append(begin - due)
            served.append(end - begin)
    return np.array(waited), np.array(served)


def replayed(due_s: Floats, served_s: Floats, workers: int, most_wait_s: float = math.inf) -> Floats:
    """Return how long each request waits for its answer, infinite if refused; rows are independent replays."""
    if workers == 1 and most_wait_s == math.inf:
        done = np.cumsum(served_s, axis=1)
        return np.asarray(done + np.maximum.accumulate(due_s - done + served_s, axis=1) - due_s)
    rows, free_s = np.arange(len(due_s)), np.zeros((len(due_s), workers))
    waits = np.empty(served_s.shape)
    for place in range(served_s.shape[1]):
        first, due = free_s.argmin(axis=1), due_s[:, place]
        begin_s = np.maximum(due, free_s[rows, first])
        is_taken = begin_s - due <= most_wait_s
        end_s = begin_s + served_s[:, place]
        free_s[rows, first] = np.where(is_taken, end_s, begin_s)
        waits[:, place] = np.where(is_taken, end_s - due, math.inf)
    return waits


def _differences(step: Seen, usual_s: Floats, workers: int, most_wait_s: float) -> Floats:
    """Return how far the percentiles of the step are from those of replays, in standard deviations of the replays."""
    random, count, due_s = np.random.default_rng(1), len(step.due_s), np.sort(step.due_s)
    drawn = _drawn(np.broadcast_to(usual_s, (TRIES, len(usual_s))), count, SHORT_BLOCK, random) * step.slowness
    waits = replayed(np.broadcast_to(due_s, drawn.shape), drawn, workers, most_wait_s)
    until_s = TINY_S + float((step.due_s + step.wait_s)[np.isfinite(step.wait_s)].max(initial=due_s[-1]))
    seen = np.log(np.percentile(np.minimum(waits, until_s - due_s), CHECKED, axis=1))
    measured = np.log(np.percentile(np.minimum(step.wait_s, until_s - step.due_s), CHECKED))
    return np.asarray((measured - seen.mean(axis=1)) / np.maximum(seen.std(axis=1), EXACT))


def _drawn(pools: Floats, count: int, block: int, random: np.random.Generator) -> Floats:
    """Return so many of each row: random blocks of neighbours."""
    starts = random.integers(0, pools.shape[1], (len(pools), -(-count // block)))
    places = (starts[..., None] + np.arange(block)) % pools.shape[1]
    return np.take_along_axis(pools, places.reshape(len(pools), -1)[:, :count], axis=1)
