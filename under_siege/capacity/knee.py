"""Estimate the arrival rate at which a metric reaches its limit, from a few steps at other rates.

Latency of answers: replay measured service times. Every answer tells how long its request was served: from when a
worker was free for it until it was answered. That is Lindley's recursion (1952), inverted; with several workers it is
that of Kiefer and Wolfowitz (1955). Some hundred such times, replayed at other rates, tell more than the few
percentiles of the steps that they come from. They are drawn in blocks, because neighbours are alike where the speed of
the machine changes; a block bootstrap (Künsch 1989) gives the interval.

Where no queue explains the metric, it is taken to follow a power of the rate: ping latency, for example. Where requests
are refused, the percentile of the others says nothing until it is too late; then the requests that missed the limit are
counted, and their number follows a power of the rate. The rate, the power and the scatter of the steps are estimated
together: Bayes' rule on a grid, with weak priors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

Floats = NDArray[np.float64]

POWERS = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 40.0])
SCATTERS = np.array([0.03, 0.06, 0.1, 0.16, 0.25, 0.4, 0.7])  # standard deviations of a step's logarithm
SCATTER_PRIOR = np.array([0.6, 0.8, 1.0, 1.0, 1.0, 1.0, 0.7])
WIDTH_OF_GUESS = 0.4
CLUMPS = np.array([1.05, 1.3, 1.6, 2.0, 2.5, 4.0, 8.0])  # variance of a count as a multiple of its mean
POWER_PRIOR_OF_COUNTS = np.minimum(1.0, POWERS / 4)
# Beyond this multiple of the limit, or its inverse, a step only shows on which side of the knee it is.
CLEAR = math.log(6)
ODD = 0.005  # share of steps that contradict the others
ODD_BREAK, NEAR = 0.01, 0.03  # how often a step misses a goal below the knee, and how near to it that is no surprise
POINTS = 240  # points of the grid of rates; a second, finer grid follows
LEAST_ERROR = 0.015  # error of a rate that was estimated from service times
DEVIATIONS = 5.0


@dataclass(frozen=True, slots=True)
class Look:
    """What a step says about one figure."""

    per_s: float  # at the usual speed of the machine
    excess: float  # the logarithm of the figure as a multiple of its limit; infinite where it broke
    broke: bool = False  # the step ended early because so much missed the limit: the knee lies below it
    missed: int = 0  # how many requests missed the limit,
    allowed: float = 0.0  # and how many may; 0: the figure itself says more


class Knee:
    """The probability distribution of the rate at which a figure reaches its limit."""

    def __init__(self, rates: Floats, probable: Floats, *, is_replayed: bool = False) -> None:
        self._rates, self._sums = rates, np.cumsum(probable) / probable.sum()
        self.is_replayed = is_replayed

    def rate(self, share: float) -> float:
        """Return that quantile."""
        return float(np.exp(np.interp(share, self._sums, np.log(self._rates))))

    def below(self, per_s: Floats) -> Floats:
        """Return the probability that the knee lies below each rate."""
        probable = np.interp(np.log(per_s), np.log(self._rates), self._sums, left=0.0, right=1.0)
        return np.asarray(probable, dtype=np.float64)


def knee_of_replicates(rates: Floats) -> Knee:
    """Return the log-normal distribution of bootstrap replicates."""
    spread = math.hypot(float(np.std(np.log(rates))), LEAST_ERROR)
    deviations = np.linspace(-DEVIATIONS, DEVIATIONS, POINTS)
    return Knee(np.median(rates) * np.exp(spread * deviations), np.exp(-(deviations**2) / 2), is_replayed=True)


def knee(looks: Sequence[Look], least: float, most: float, guess: float) -> Knee:
    """Estimate the knee between two rates."""
    rates = np.geomspace(least, most, POINTS)
    found = Knee(rates, _probable(looks, rates, guess))
    rates = np.geomspace(found.rate(0.0005) * 0.97, found.rate(0.9995) * 1.03, POINTS)
    rates = rates[(rates >= least * 0.999) & (rates <= most * 1.001)]
    return Knee(rates, _probable(looks, rates, guess)) if len(rates) > 2 else found


def _probable(looks: Sequence[Look], rates: Floats, guess: float) -> Floats:
    """Return the probability of each rate, whatever the power and the scatter."""
    logs = np.zeros((len(rates), len(POWERS), len(SCATTERS)))
    logs += -np.log1p((np.log(rates / guess) / WIDTH_OF_GUESS) ** 2)[:, None, None] + np.log(SCATTER_PRIOR)
    for look in looks:
        expected = np.log(look.per_s / rates)[:, None] * POWERS
        if look.allowed:
            logs += _likely_count(look, expected) + np.log(POWER_PRIOR_OF_COUNTS)[:, None]
            continue
        logs += np.log((1 - ODD) * _likely(look, expected[..., None]) + ODD / 4)
        if look.broke:
            logs += np.log(ODD_BREAK + (1 - ODD_BREAK) * ndtr(np.log(look.per_s / rates) / NEAR))[:, None, None]
    return np.asarray(np.exp(logs - logs.max()).sum(axis=(1, 2)))


def _likely(look: Look, expected: Floats) -> Floats:
    if abs(look.excess) >= CLEAR:
        beyond = expected - CLEAR if look.excess > 0 else -CLEAR - expected
        return np.asarray(ndtr(beyond / SCATTERS))
    deviation = (look.excess - expected) / SCATTERS
    return np.asarray(np.exp(-(deviation**2) / 2) / SCATTERS / math.sqrt(2 * math.pi))


def _likely_count(look: Look, expected: Floats) -> Floats:
    """Return the log-likelihood of a negative binomial, because misses come in clumps; without constant terms."""
    clumps = look.allowed * np.exp(np.minimum(expected, 20.0))[..., None] / (CLUMPS - 1)
    chances = gammaln(clumps + look.missed) - gammaln(clumps)
    return np.asarray(chances + look.missed * np.log(1 - 1 / CLUMPS) - clumps * np.log(CLUMPS))


SHORT_BLOCK, LONG_BLOCK = 5, 80  # requests; long blocks keep slow episodes of the machine together
FEWEST = 40  # service times
REPLICATES, REQUESTS = 60, 1500
WARM_UP = 200  # requests at the start of a replay, which begins with an empty queue
FULL = 0.999  # utilisation
FULL_QUEUE = 90.0  # percentile of the waiting times if requests are refused
HALVINGS = 9  # bisection steps
WORKERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # numbers of workers that a server may have
TRIES = 30  # replays of each step for comparison
CHECKED = (50.0, 90.0, 99.0)  # percentiles
EXACT = 0.1  # smaller differences of their logarithms don't count
ALIKE = 2.0  # standard deviations, root mean square; beyond it the server is not such a queue
INDEPENDENT = math.log(2)  # a larger difference is not noise
FEWEST_OF_STEP = 20  # service times needed for a mean
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
