"""Compute the CPU speed over time from the samples of the speed probe."""

import math
from collections.abc import Callable

import numpy as np

from under_siege.judge.estimators import Floats
from under_siege.record.record import Record

Clock = Callable[[Floats], Floats]

STEP_S = 0.05
STEPS_OF_A_MOMENT = 10
FEWEST_SAMPLES = 4
# Standard deviation of the Gaussian weights; this value predicted the rates of recorded runs best. Single samples
# deviate by a few percent, and half of their variance comes from fluctuations shorter than 50 ms. These fluctuations
# hardly affect a rate, because requests in a closed loop average over a longer time.
WIDTH_S = 0.35
# Samples longer than CLIPPED medians count as CLIPPED medians. Samples shorter than the median divided by CLIPPED are
# dropped.
CLIPPED = 3.0
SHORTEST_SAMPLE_S = 1e-9  # used instead of 0: the CPU clock may stand still while a noisy neighbour uses the CPU
# Minimum total weight of the samples around a step. If the weight is lower, the speed is interpolated from other steps.
LEAST_WEIGHT = 1e-6
IDLE = 0.02  # added to the utilization of each CPU, so that the weighted mean speed exists even if all CPUs are idle


class Speeds:
    """The speed of each CPU over time, in repetitions of the probe's work per second of CPU time.

    Two-dimensional arrays have a row for each CPU and a column for each time step of `STEP_S`. All times are in seconds
    since the siege began.
    """

    def __init__(self, record: Record) -> None:
        samples = record.speed_samples
        at_s, took_s, cpu = (np.asarray(column) for column in (samples.at_s, samples.took_s, samples.cpu))
        self._cpus = sorted(set(samples.cpu))
        self._at_s: Floats = np.arange(at_s.min(), max(at_s.max(), at_s.min() + STEP_S), STEP_S)
        self._ends_s: Floats = self._at_s + STEP_S
        took_s = np.maximum(took_s, SHORTEST_SAMPLE_S)
        usual_s = float(np.median(took_s))
        speeds, smooth = [], []
        for index in self._cpus:
            own = cpu == index
            speeds.append(np.interp(self._at_s + STEP_S / 2, at_s[own], 1 / _medians_of_three(took_s[own])))
            long_enough = own & (took_s > usual_s / CLIPPED)
            counted = long_enough if long_enough.any() else own
            smooth.append(self._smooth(at_s[counted], 1 / np.minimum(took_s[counted], CLIPPED * usual_s)))
        self._speed: Floats = np.array(speeds)
        self._busy: Floats = np.array([_busy(record, index, self._at_s) for index in self._cpus])
        self._weights: Floats = self._busy + IDLE
        self._weighted: Floats = np.array(smooth) * self._weights

    def _smooth(self, at_s: Floats, speeds: Floats) -> Floats:
        steps = np.clip(((at_s - self._at_s[0]) / STEP_S).astype(int), 0, len(self._at_s) - 1)
        reach = math.ceil(4 * WIDTH_S / STEP_S)
        kernel = np.exp(-((np.arange(-reach, reach + 1) * STEP_S / WIDTH_S) ** 2) / 2)
        sums, counts = (
            np.convolve(np.bincount(steps, weights, len(self._at_s)), kernel)[reach:-reach]
            for weights in (speeds, np.ones(len(speeds)))
        )
        seen = counts > LEAST_WEIGHT
        means: Floats = np.interp(np.arange(len(sums)), np.flatnonzero(seen), sums[seen] / counts[seen])
        return means

    def mean(self, from_s: float, to_s: float) -> float:
        """Return the mean speed of all CPUs over a period, weighted by their utilization."""
        inside = self._inside(from_s, to_s)
        return float(self._weighted[:, inside].sum() / self._weights[:, inside].sum())

    def moments(self, from_s: float, to_s: float) -> Floats:
        """Return the mean speed in each half second of a period, weighted as in `mean`."""
        inside = self._inside(from_s, to_s)
        begins = np.arange(0, inside.stop - inside.start, STEPS_OF_A_MOMENT)
        weighted = np.add.reduceat(self._weighted[:, inside].sum(axis=0), begins)
        moments: Floats = weighted / np.add.reduceat(self._weights[:, inside].sum(axis=0), begins)
        return moments

    def clock(self, usual: float = 1.0, coefficient: float = 1.0) -> Clock:
        """Return a function that converts a time to the time at which the same work would be done at the usual speed.

        The pace of the work is the relative speed to the power of `coefficient`, which is 1 for CPU-bound work and 0
        for I/O-bound work.
        """
        speeds = (self._weighted.sum(axis=0) / self._weights.sum(axis=0) / usual) ** coefficient
        edges = np.append(self._at_s, self._ends_s[-1])
        done = np.concatenate(([0.0], np.cumsum(speeds) * STEP_S))
        done -= np.interp(0.0, edges, done)
        first, last = float(speeds[0]), float(speeds[-1])

        def clock(at_s: Floats) -> Floats:
            outside = first * np.minimum(at_s - edges[0], 0) + last * np.maximum(at_s - edges[-1], 0)
            return np.asarray(np.interp(at_s, edges, done) + outside)

        return clock

    def load_beside(self, from_s: float, to_s: float) -> float:
        """Return the mean utilization of the other CPUs while one CPU is busy, from 0 to 1."""
        count, inside = len(self._cpus), self._inside(from_s, to_s)
        if count == 1:
            return 0.0
        busy, weights = self._busy[:, inside], self._weights[:, inside]
        others = (busy.sum(axis=0) - busy) / (count - 1)
        return float((others * weights).sum() / weights.sum())

    def highest(self, from_s: float, to_s: float) -> float:
        """Return the highest speed of any CPU in a period."""
        return float(self._speed[:, self._inside(from_s, to_s)].max())

    def at(self, at_s: float, cpu: int) -> float:
        """Return the speed of a CPU at a given time, or the highest speed of any CPU if this CPU has no samples."""
        column = int(min(max((at_s - float(self._at_s[0])) / STEP_S, 0), len(self._at_s) - 1))
        speeds = self._speed[:, column]
        return float(speeds[self._cpus.index(cpu)] if cpu in self._cpus else speeds.max())

    def _inside(self, from_s: float, to_s: float) -> slice:
        """Return the time steps that overlap a period, or the nearest steps if none do."""
        first, last = int(self._ends_s.searchsorted(from_s, "right")), int(self._at_s.searchsorted(to_s))
        if first < last:
            return slice(first, last)
        far_s = np.abs(self._at_s - from_s)
        nearest = np.flatnonzero(far_s == far_s.min())
        return slice(int(nearest[0]), int(nearest[-1]) + 1)


def speeds_of(record: Record) -> Speeds | None:
    """Return the speeds of the CPUs, or None if there are too few samples."""
    return Speeds(record) if len(record.speed_samples.at_s) >= FEWEST_SAMPLES else None


def _medians_of_three(values: Floats) -> Floats:
    """Return the median of each value and its two neighbours, because interrupts can distort single samples."""
    padded = np.pad(values, 1, mode="edge")
    medians: Floats = np.median(np.stack((padded[:-2], values, padded[2:])), axis=0)
    return medians


def _busy(record: Record, cpu: int, at_s: Floats) -> Floats:
    """Return the utilization of a CPU in each time step, or 1 for every step if it is unknown."""
    used_s = record.cpu_times.busy_s.get(cpu, [])
    if len(used_s) < 2:
        return np.ones(len(at_s))
    edges = np.interp(np.append(at_s, at_s[-1] + STEP_S), record.cpu_times.at_s[: len(used_s)], used_s)
    share: Floats = np.clip(np.diff(edges) / STEP_S, 0.0, 1.0)
    return share
