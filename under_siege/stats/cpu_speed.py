"""Compute the speed of the machine while a case was measured, from the samples of the speed probe."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from under_siege.model.record import Record
from under_siege.stats.rate import line_through

Floats = NDArray[np.float64]
Clock = Callable[[Floats], Floats]

STEP_S = 0.05
MOMENT = 10  # steps
SMOOTHED = 3  # samples whose median counts, because an interrupt can multiply a single one
# A single beat is uncertain by some per cent, and half of the variance lasts less than 50 ms: what a request of a
# closed loop meets is the mean over a longer time. On recorded runs this width predicted rates best.
WIDTH_S = 0.35
CLIPPED = 3.0  # a sample counts at most this many times the median; one that is shorter by this factor does not count
LEAST_BEAT_S = 1e-9  # the CPU clock may stand still during a sample if a noisy neighbour takes the CPU
# Minimum weight of the samples around a step; with less, the neighbouring steps determine the speed.
LEAST_WEIGHT = 1e-6
IDLE = 0.02  # weight of an idle CPU, so that there is a speed even if nothing computes


class Speeds:
    """The speed of each CPU over time: in units of the metronome's work in a second of that CPU's time.

    Rows are CPUs, columns are steps of `STEP_S` from `at_s` on, in seconds since the siege began.
    """

    def __init__(self, record: Record) -> None:
        beats = record.beats
        at_s, took_s, cpu = (np.asarray(column) for column in (beats.at_s, beats.took_s, beats.cpu))
        self.cpus = sorted(set(beats.cpu))
        self.at_s: Floats = np.arange(at_s.min(), max(at_s.max(), at_s.min() + STEP_S), STEP_S)
        self._ends_s: Floats = self.at_s + STEP_S
        of_cpus = [cpu == one for one in self.cpus]
        self._speed: Floats = np.array(
            [
                np.interp(self.at_s + STEP_S / 2, at_s[own], 1 / _smoothed(np.maximum(took_s[own], LEAST_BEAT_S)))
                for own in of_cpus
            ]
        )
        self._busy: Floats = np.array([_busy(record, one, self.at_s) for one in self.cpus])
        self._weights: Floats = self._busy + IDLE
        usual_s = max(float(np.median(took_s)), LEAST_BEAT_S)
        clipped = np.clip(took_s, LEAST_BEAT_S, CLIPPED * usual_s)
        counted = [kept if (kept := own & (took_s > usual_s / CLIPPED)).any() else own for own in of_cpus]
        smooth = np.array([self._smooth(at_s[kept], 1 / clipped[kept]) for kept in counted])
        self._weighted: Floats = smooth * self._weights

    def _smooth(self, at_s: Floats, speeds: Floats) -> Floats:
        """Return the mean of the speeds around each step, with Gaussian weights."""
        steps = np.clip(((at_s - self.at_s[0]) / STEP_S).astype(int), 0, len(self.at_s) - 1)
        reach = math.ceil(4 * WIDTH_S / STEP_S)
        kernel = np.exp(-((np.arange(-reach, reach + 1) * STEP_S / WIDTH_S) ** 2) / 2)
        sums, counts = (
            np.convolve(np.bincount(steps, weights, len(self.at_s)), kernel)[reach:-reach]
            for weights in (speeds, np.ones(len(speeds)))
        )
        seen = counts > LEAST_WEIGHT
        means: Floats = np.interp(np.arange(len(sums)), np.flatnonzero(seen), sums[seen] / counts[seen])
        return means

    def mean(self, from_s: float, to_s: float) -> float:
        """Over a time: the mean of the CPUs' speeds, each weighted by how busy it was."""
        inside = self._inside(from_s, to_s)
        return float(self._weighted[:, inside].sum() / self._weights[:, inside].sum())

    def along(self, answered_s: Floats) -> float:
        """The slope of the line through the work that could be done until each answer: as a rate is told from them."""
        return line_through(answered_s, self.clock(1.0)(answered_s))[0]

    def clock(self, usual: float, coefficient: float = 1.0) -> Clock:
        """Return the function from a time to the seconds in which as much could be done at the usual speed.

        Args:
            usual: the usual speed.
            coefficient: how far the work follows the speed: 1 for computing, 0 for waiting.
        """
        speeds = (self._weighted.sum(axis=0) / self._weights.sum(axis=0) / usual) ** coefficient
        edges = np.append(self.at_s, self._ends_s[-1])
        done = np.concatenate(([0.0], np.cumsum(speeds) * STEP_S))
        done -= np.interp(0.0, edges, done)
        ends = [float(speeds[0]), float(speeds[-1])]

        def clock(at_s: Floats) -> Floats:
            outside = ends[0] * np.minimum(at_s - edges[0], 0) + ends[1] * np.maximum(at_s - edges[-1], 0)
            return np.asarray(np.interp(at_s, edges, done) + outside)

        return clock

    def means(self, from_s: Floats, to_s: Floats) -> Floats:
        """Return what `mean` returns, over many times at once; each is cut off where the samples end."""
        ends_s = np.clip(to_s, self.at_s[0] + STEP_S, self._ends_s[-1])
        begins_s = np.clip(from_s, self.at_s[0], ends_s - STEP_S)
        clock = self.clock(1.0)
        return np.asarray((clock(ends_s) - clock(begins_s)) / (ends_s - begins_s))

    def load_beside(self, from_s: float, to_s: float) -> float:
        """Return how busy the other CPUs were, beside one that worked: 0 to 1."""
        count, inside = len(self.cpus), self._inside(from_s, to_s)
        if count == 1:
            return 0.0
        busy, weights = self._busy[:, inside], self._weights[:, inside]
        others = (busy.sum(axis=0) - busy) / (count - 1)
        return float((others * weights).sum() / weights.sum())

    def moments(self, from_s: float, to_s: float) -> Floats:
        """Return the mean of the CPUs' speeds in each half second of a time, weighted as in `mean`."""
        inside = self._inside(from_s, to_s)
        begins = np.arange(0, inside.stop - inside.start, MOMENT)
        weighted = np.add.reduceat(self._weighted[:, inside].sum(axis=0), begins)
        moments: Floats = weighted / np.add.reduceat(self._weights[:, inside].sum(axis=0), begins)
        return moments

    def highest(self, from_s: float, to_s: float) -> float:
        """Return the highest of any CPU over a time."""
        return float(self._speed[:, self._inside(from_s, to_s)].max())

    def at(self, at_s: float, cpu: int) -> float:
        """Of a CPU at a moment; of the fastest where it isn't known which CPU it was."""
        column = int(min(max((at_s - float(self.at_s[0])) / STEP_S, 0), len(self.at_s) - 1))
        return float(self._speed[self.cpus.index(cpu), column] if cpu in self.cpus else self._speed[:, column].max())

    def _inside(self, from_s: float, to_s: float) -> slice:
        """Return the steps that lie in the time, or are the nearest to it."""
        first, last = int(self._ends_s.searchsorted(from_s, "right")), int(self.at_s.searchsorted(to_s))
        if first < last:
            return slice(first, last)
        far_s = np.abs(self.at_s - from_s)
        nearest = np.flatnonzero(far_s == far_s.min())
        return slice(int(nearest[0]), int(nearest[-1]) + 1)


def speeds_of(record: Record) -> Speeds | None:
    """None where there was no metronome, as in older results."""
    return Speeds(record) if len(record.beats.at_s) > SMOOTHED else None


def _smoothed(values: Floats) -> Floats:
    """Return the median of each with its neighbours."""
    before, after = np.concatenate((values[:1], values[:-1])), np.concatenate((values[1:], values[-1:]))
    medians: Floats = np.maximum(np.minimum(before, values), np.minimum(np.maximum(before, values), after))
    return medians


def _busy(record: Record, cpu: int, at_s: Floats) -> Floats:
    """Return the share of each step that the CPU worked; the same for all where that isn't known."""
    used_s = record.cpu_times.busy_s.get(cpu, [])
    if len(used_s) < 2:
        return np.ones(len(at_s))
    edges = np.interp(np.append(at_s, at_s[-1] + STEP_S), record.cpu_times.at_s[: len(used_s)], used_s)
    share: Floats = np.clip(np.diff(edges) / STEP_S, 0.0, 1.0)
    return share
