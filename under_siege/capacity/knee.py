"""Estimate the arrival rate at which a metric reaches its limit, from a few steps at other rates.

Response times are estimated by replaying measured service times. The service time of a request begins when a worker is
free for it, and ends with its response. It is computed by inverting Lindley's recursion (1952) or, with several
workers, the recursion of Kiefer and Wolfowitz (1955). A few hundred service times, replayed at other rates, contain
more information than the percentiles of their steps. A block bootstrap (Künsch 1989) determines the interval, because
the service times of consecutive requests are correlated if the machine's speed changes.

A metric that no queue explains, such as ping latency, is modelled as a power of the rate. If the server refuses
requests, the latency percentile of the accepted requests rises only far beyond the knee. In that case, the number of
requests that exceeded the limit is modelled as a power of the rate. The knee, the power and the scatter of the steps
are estimated together, by Bayes' rule on a grid with weak priors.
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
SCATTERS = np.array([0.03, 0.06, 0.1, 0.16, 0.25, 0.4, 0.7])  # standard deviations of a metric's logarithm in a step
SCATTER_PRIOR = np.array([0.6, 0.8, 1.0, 1.0, 1.0, 1.0, 0.7])
WIDTH_OF_GUESS = 0.4  # scale of the Cauchy prior of the knee's logarithm
CLUMPS = np.array([1.05, 1.3, 1.6, 2.0, 2.5, 4.0, 8.0])  # variance of a count as a multiple of its mean
POWER_PRIOR_OF_COUNTS = np.minimum(1.0, POWERS / 4)
# A metric above 6 times its limit or below a sixth of its limit shows only whether the rate is above the knee.
CLEAR = math.log(6)
OUTLIERS = 0.005  # assumed share of steps that contradict the others
# Assumed share of steps that end early although their rate is below the knee, and uncertainty of the knee's logarithm
# for steps that ended early.
BREAK_OUTLIERS, NEAR = 0.01, 0.03
POINTS = 240  # size of each grid of rates
LEAST_ERROR = 0.015  # minimum relative error of a rate that was estimated from service times
DEVIATIONS = 5.0  # half-width of the grid, in standard deviations


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """What a step shows about one metric."""

    per_s: float  # the rate, adjusted to the mean speed of the machine
    excess: float  # the logarithm of the metric divided by its limit; may be infinite
    broke: bool = False  # whether the step ended early because the metric clearly exceeded the limit
    missed: int = 0  # number of requests that exceeded the limit
    allowed: float = 0.0  # number of requests allowed to exceed the limit; if 0, `excess` is used instead of the counts


class Knee:
    """The probability distribution of the rate at which a metric reaches its limit."""

    def __init__(self, rates: Floats, probabilities: Floats, *, is_replayed: bool = False) -> None:
        self._rates, self._sums = rates, np.cumsum(probabilities) / probabilities.sum()
        self.is_replayed = is_replayed

    def rate(self, share: float) -> float:
        """Return a quantile of the knee."""
        return float(np.exp(np.interp(share, self._sums, np.log(self._rates))))

    def below(self, per_s: Floats) -> Floats:
        """Return the probability that the knee lies below each rate."""
        below = np.interp(np.log(per_s), np.log(self._rates), self._sums, left=0.0, right=1.0)
        return np.asarray(below, dtype=np.float64)


def knee_of_replicates(rates: Floats) -> Knee:
    """Return the knee as a log-normal distribution with the median and the spread of the bootstrap replicates."""
    spread = math.hypot(float(np.std(np.log(rates))), LEAST_ERROR)
    deviations = np.linspace(-DEVIATIONS, DEVIATIONS, POINTS)
    return Knee(np.median(rates) * np.exp(spread * deviations), np.exp(-(deviations**2) / 2), is_replayed=True)


def estimate_knee(evidence: Sequence[StepEvidence], least: float, most: float, guess: float) -> Knee:
    """Estimate the knee between the rates `least` and `most`, first on a coarse and then on a finer grid."""
    rates = np.geomspace(least, most, POINTS)
    coarse = Knee(rates, _probabilities(evidence, rates, guess))
    rates = np.geomspace(coarse.rate(0.0005) * 0.97, coarse.rate(0.9995) * 1.03, POINTS)
    rates = rates[(rates >= least * 0.999) & (rates <= most * 1.001)]
    return Knee(rates, _probabilities(evidence, rates, guess)) if len(rates) > 2 else coarse


def _probabilities(evidence: Sequence[StepEvidence], rates: Floats, guess: float) -> Floats:
    """Return the unnormalized probability that each rate is the knee, summed over all powers and scatters."""
    logs = np.zeros((len(rates), len(POWERS), len(SCATTERS)))
    logs += -np.log1p((np.log(rates / guess) / WIDTH_OF_GUESS) ** 2)[:, None, None] + np.log(SCATTER_PRIOR)
    for step in evidence:
        expected = np.log(step.per_s / rates)[:, None] * POWERS
        if step.allowed:
            logs += _count_log_likelihood(step, expected) + np.log(POWER_PRIOR_OF_COUNTS)[:, None]
            continue
        logs += np.log((1 - OUTLIERS) * _likelihood(step, expected[..., None]) + OUTLIERS / 4)
        if step.broke:
            is_above = ndtr(np.log(step.per_s / rates) / NEAR)
            logs += np.log(BREAK_OUTLIERS + (1 - BREAK_OUTLIERS) * is_above)[:, None, None]
    return np.asarray(np.exp(logs - logs.max()).sum(axis=(1, 2)))


def _likelihood(step: StepEvidence, expected: Floats) -> Floats:
    if abs(step.excess) >= CLEAR:
        beyond = expected - CLEAR if step.excess > 0 else -CLEAR - expected
        return np.asarray(ndtr(beyond / SCATTERS))
    deviation = (step.excess - expected) / SCATTERS
    return np.asarray(np.exp(-(deviation**2) / 2) / SCATTERS / math.sqrt(2 * math.pi))


def _count_log_likelihood(step: StepEvidence, expected: Floats) -> Floats:
    """Return the log-likelihood of a count under a negative binomial distribution, which allows for clustered misses.

    Constant terms are omitted.
    """
    clumps = step.allowed * np.exp(np.minimum(expected, 20.0))[..., None] / (CLUMPS - 1)
    chances = gammaln(clumps + step.missed) - gammaln(clumps)
    return np.asarray(chances + step.missed * np.log(1 - 1 / CLUMPS) - clumps * np.log(CLUMPS))


SHORT_BLOCK, LONG_BLOCK = 5, 80  # lengths in requests; long blocks keep slow periods of the machine together
FEWEST = 40  # minimum number of service times for a replay
REPLICATES, REQUESTS = 60, 1500  # number of replays, and number of requests in each
WARM_UP = 200  # number of requests that are ignored at the start of a replay, because its queue is empty at first
FULL = 0.999  # highest utilization to try
FULL_QUEUE = 90.0  # if requests are refused, this percentile of the waiting times estimates the longest possible wait
HALVINGS = 9  # number of bisection steps
WORKERS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # numbers of workers to try
TRIES = 30  # number of replays that each step is compared with
CHECKED = (50.0, 90.0, 99.0)  # percentiles of a step that are compared with its replays
EXACT = 0.1  # minimum standard deviation of the logarithms of these percentiles
ALIKE = 2.0  # maximum mismatch (root mean square, in standard deviations) of a queue accepted as a model
INDEPENDENT = math.log(2)  # maximum `dependence` of service times that count as independent of the load
FEWEST_OF_STEP = 20  # minimum number of service times for the mean of a step
TINY_S = 1e-6


@dataclass(frozen=True, slots=True)
class StepRequests:
    """The requests of one step, in the order of their arrival."""

    due_s: Floats
    wait_s: Floats  # time to the response or the timeout; infinite if the request was refused
    is_answered: NDArray[np.bool_]
    slowness: Floats  # service time divided by that at the machine's mean speed; 1 if the speed has no effect


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that one or more workers serve, and its service times."""

    workers: int
    steady_s: Floats  # service times, adjusted to the mean speed of the machine
    real_s: Floats  # service times at the varying speed of the machine, divided by the mean slowness
    mismatch: float  # difference between the replays and the steps, in standard deviations
    dependence: float  # logarithm of the ratio of the longest to the shortest mean service time among the steps
    follows_speed: bool
    most_wait_s: float = math.inf  # requests that would have to wait longer are refused

    @property
    def is_alike(self) -> bool:
        """Return whether the replays of the queue resemble the measurement."""
        return self.mismatch <= ALIKE and self.dependence <= INDEPENDENT

    def rates(self, percent: float, limit_s: float, *, is_steady: bool = False) -> Floats:
        """Return the rate at which the percentile reaches the limit in each bootstrap replicate."""
        times_s, block = (
            (self.steady_s, SHORT_BLOCK) if is_steady else (self.real_s, min(LONG_BLOCK, len(self.real_s) // 4))
        )
        random = np.random.default_rng(len(times_s))
        pool = np.broadcast_to(times_s, (REPLICATES, len(times_s)))
        resampled = _drawn(pool, len(times_s), block, random)
        served_s = _drawn(np.concatenate([pool, resampled]), REQUESTS, block, random)
        arrivals = random.exponential(1, (REPLICATES, REQUESTS)).cumsum(axis=1)
        arrivals = np.concatenate([arrivals, np.broadcast_to(arrivals[0], arrivals.shape)])
        return self._rates(arrivals, served_s, percent, limit_s)

    def _rates(self, arrivals: Floats, served_s: Floats, percent: float, limit_s: float) -> Floats:
        """Find by bisection a common rate for the first half of the rows, and a rate for each row of the second half.

        The common rate is the estimate, and the other rates show its scatter. The rows of the second half share their
        arrivals, so they differ only in their service times.
        """
        most = FULL * self.workers / served_s.mean(axis=1)
        most[:REPLICATES] = most[:REPLICATES].mean()
        least = np.zeros(len(most))
        for _ in range(HALVINGS):
            middle = (least + most) / 2
            waits = replayed(arrivals / middle[:, None], served_s, self.workers, self.most_wait_s)[:, WARM_UP:]
            reached = np.percentile(waits, percent, axis=1, method="higher")
            reached[:REPLICATES] = np.percentile(waits[:REPLICATES], percent, method="higher")
            is_kept = reached <= limit_s
            least, most = np.where(is_kept, middle, least), np.where(is_kept, most, middle)
        rate, scattered = np.split((least + most) / 2, 2)
        return np.asarray(rate * scattered / np.median(scattered))


def queue_from(steps: Sequence[StepRequests], workers: Sequence[int] = WORKERS) -> Queue | None:
    """Return the queue whose replays most closely resemble the steps, or None if too few requests were answered."""
    if sum(int(step.is_answered.sum()) for step in steps) < FEWEST:
        return None
    best = _queue(steps, workers[0])
    for count in workers[1:]:
        other = _queue(steps, count)
        if best.is_alike and other.mismatch > best.mismatch:
            break
        best = min(best, other, key=lambda queue: queue.mismatch)
    return best


def _queue(steps: Sequence[StepRequests], workers: int) -> Queue:
    if workers == 1:  # a single worker answers requests in the order in which it serves them
        steps = [_by_answer(step) for step in steps]
    waited, served = zip(*(service_times(step, workers) for step in steps), strict=True)
    steady = [np.asarray(times / step.slowness[step.is_answered]) for times, step in zip(served, steps, strict=True)]
    slowness = np.concatenate([step.slowness[step.is_answered] for step in steps])
    pooled = np.concatenate(steady)
    full = [times for times, step in zip(waited, steps, strict=True) if np.isinf(step.wait_s).any() and len(times)]
    most_wait_s = float(np.percentile(np.concatenate(full), FULL_QUEUE)) if full else math.inf
    differences = np.concatenate([_differences(step, pooled, workers, most_wait_s) for step in steps])
    means = [times.mean() for times in steady if len(times) >= FEWEST_OF_STEP]
    return Queue(
        workers=workers,
        steady_s=pooled,
        real_s=np.concatenate(served) / slowness.mean(),
        mismatch=math.sqrt(np.mean(differences**2)),
        dependence=float(np.ptp(np.log(means))) if means else 0.0,
        follows_speed=bool(slowness.std()),
        most_wait_s=most_wait_s,
    )


def _by_answer(step: StepRequests) -> StepRequests:
    order = np.argsort(step.due_s + step.wait_s, kind="stable")
    return StepRequests(step.due_s[order], step.wait_s[order], step.is_answered[order], step.slowness[order])


def service_times(step: StepRequests, workers: int) -> tuple[Floats, Floats]:
    """Return how long each answered request waited for a worker, and its service time, in seconds.

    This assumes that workers serve requests in the order in which `step` lists them.
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
    """Replay each row, and return the response time of each request (infinite if it was refused)."""
    if workers == 1 and most_wait_s == math.inf:
        done = np.cumsum(served_s, axis=1)
        return np.asarray(done + np.maximum.accumulate(due_s - done + served_s, axis=1) - due_s)
    rows, free_s = np.arange(len(due_s)), np.zeros((len(due_s), workers))
    waits = np.empty(served_s.shape)
    for index in range(served_s.shape[1]):
        first, due = free_s.argmin(axis=1), due_s[:, index]
        begin_s = np.maximum(due, free_s[rows, first])
        is_accepted = begin_s - due <= most_wait_s
        end_s = begin_s + served_s[:, index]
        free_s[rows, first] = np.where(is_accepted, end_s, begin_s)
        waits[:, index] = np.where(is_accepted, end_s - due, math.inf)
    return waits


def _differences(step: StepRequests, steady_s: Floats, workers: int, most_wait_s: float) -> Floats:
    """Return how much percentiles of the step differ from those of its replays, in standard deviations."""
    random, count, due_s = np.random.default_rng(1), len(step.due_s), np.sort(step.due_s)
    drawn = _drawn(np.broadcast_to(steady_s, (TRIES, len(steady_s))), count, SHORT_BLOCK, random) * step.slowness
    waits = replayed(np.broadcast_to(due_s, drawn.shape), drawn, workers, most_wait_s)
    until_s = TINY_S + float((step.due_s + step.wait_s)[np.isfinite(step.wait_s)].max(initial=due_s[-1]))
    simulated = np.log(np.percentile(np.minimum(waits, until_s - due_s), CHECKED, axis=1))
    measured = np.log(np.percentile(np.minimum(step.wait_s, until_s - step.due_s), CHECKED))
    return np.asarray((measured - simulated.mean(axis=1)) / np.maximum(simulated.std(axis=1), EXACT))


def _drawn(pools: Floats, count: int, block: int, random: np.random.Generator) -> Floats:
    """Draw `count` values from each row, in randomly chosen blocks of consecutive values."""
    starts = random.integers(0, pools.shape[1], (len(pools), -(-count // block)))
    indices = (starts[..., None] + np.arange(block)) % pools.shape[1]
    return np.take_along_axis(pools, indices.reshape(len(pools), -1)[:, :count], axis=1)
