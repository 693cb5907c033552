"""How fast the machine was while a case was measured, from the beats of the metronome."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from common.model.record import Record

Floats = NDArray[np.float64]

STEP_S = 0.1
MOMENT = 5  # steps
SMOOTHED = 3  # beats whose median counts, because an interrupt can make a single one several times as long
LEAST_BEAT_S = 1e-9  # the clock of a CPU's time may stand still for one, where other guests of a host take it
IDLE = 0.02  # so much a CPU counts that does nothing, so that there is a speed where nobody computes


class Speeds:
    """The speed of each CPU over time: in units of the metronome's work in a second of that CPU's time.

    Rows are CPUs, columns are steps of `STEP_S` from `at_s` on, in seconds since the siege began.
    """

    def __init__(self, record: Record) -> None:
        beats = record.beats
        at_s, took_s, cpu = (np.asarray(column) for column in (beats.at_s, beats.took_s, beats.cpu))
        self.cpus = sorted(set(cpu.tolist()))
        self.at_s: Floats = np.arange(at_s.min(), max(at_s.max(), at_s.min() + STEP_S), STEP_S)
        self._speed: Floats = np.array(
            [
                np.interp(
                    self.at_s + STEP_S / 2,
                    at_s[cpu == one],
                    1 / _smoothed(np.maximum(took_s[cpu == one], LEAST_BEAT_S)),
                )
                for one in self.cpus
            ]
        )
        self._busy: Floats = np.array([_busy(record, one, self.at_s) for one in self.cpus])

    def mean(self, from_s: float, to_s: float) -> float:
        """Over a time: the mean of the CPUs' speeds, each weighted by how busy it was."""
        weights = self._weights(from_s, to_s)
        return float((self._speed * weights).sum() / weights.sum())

    def along(self, answered_s: Floats) -> float:
        """The slope of the line through the work that could be done until each answer: as a rate is told from them."""
        weights = self._busy + IDLE
        weighted = (self._speed * weights).sum(axis=0) / weights.sum(axis=0)
        done = np.concatenate(([0.0], np.cumsum(weighted) * STEP_S))
        return float(
            np.polyfit(answered_s, np.interp(answered_s, np.append(self.at_s, self.at_s[-1] + STEP_S), done), 1)[0]
        )

    def load_beside(self, from_s: float, to_s: float) -> float:
        """How busy the other CPUs were, beside one that worked: 0 to 1."""
        count = len(self.cpus)
        if count == 1:
            return 0.0
        others = (self._busy.sum(axis=0) - self._busy) / (count - 1)
        weights = self._weights(from_s, to_s)
        return float((others * weights).sum() / weights.sum())

    def moments(self, from_s: float, to_s: float) -> Floats:
        """The mean of the CPUs' speeds in each half second of a time, weighted as in `mean`."""
        weights = self._weights(from_s, to_s)
        inside = weights.any(axis=0)
        places = np.arange(np.count_nonzero(inside)) // MOMENT
        weighted = np.bincount(places, (self._speed * weights)[:, inside].sum(axis=0))
        moments: Floats = weighted / np.bincount(places, weights[:, inside].sum(axis=0))
        return moments

    def highest(self, from_s: float, to_s: float) -> float:
        """The highest of any CPU over a time."""
        return float(self._speed[:, self._weights(from_s, to_s).any(axis=0)].max())

    def at(self, at_s: float, cpu: int) -> float:
        """Of a CPU at a moment; of the fastest where it isn't known which CPU it was."""
        column = int(np.clip((at_s - self.at_s[0]) / STEP_S, 0, len(self.at_s) - 1))
        return float(self._speed[self.cpus.index(cpu), column] if cpu in self.cpus else self._speed[:, column].max())

    def _weights(self, from_s: float, to_s: float) -> Floats:
        """What each CPU counts in each step: how busy it was, if the step lies in the time or is the nearest to it."""
        inside = (self.at_s + STEP_S > from_s) & (self.at_s < to_s)
        if not inside.any():
            inside = np.abs(self.at_s - from_s) == np.abs(self.at_s - from_s).min()
        weights: Floats = np.where(inside, self._busy + IDLE, 0.0)
        return weights


def speeds_of(record: Record) -> Speeds | None:
    """None where there was no metronome, as in older results."""
    return Speeds(record) if len(record.beats.at_s) > SMOOTHED else None


def _smoothed(values: Floats) -> Floats:
    """The median of each with its neighbours."""
    around = SMOOTHED // 2
    padded = np.pad(values, around, mode="edge")
    medians: Floats = np.median(np.lib.stride_tricks.sliding_window_view(padded, SMOOTHED), axis=1)
    return medians


def _busy(record: Record, cpu: int, at_s: Floats) -> Floats:
    """The share of each step that the CPU worked; the same for all where that isn't known."""
    used_s = record.cpu_times.busy_s.get(cpu, [])
    if len(used_s) < 2:
        return np.ones(len(at_s))
    edges = np.interp(np.append(at_s, at_s[-1] + STEP_S), record.cpu_times.at_s[: len(used_s)], used_s)
    share: Floats = np.clip(np.diff(edges) / STEP_S, 0.0, 1.0)
    return share
