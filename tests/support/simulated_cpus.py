"""Simulate a machine whose CPU speed varies as on a shared host.

The numbers were measured on a two-core virtual machine. Each CPU runs either at full speed or at 57 % of it. Half of
the variance of its speed decorrelates within 50 ms, the rest over 0.6 to 40 s. Sometimes the hypervisor takes a CPU
away, for 40 ms on average.
"""

import math

import numpy as np

from under_siege.record.record import SpeedSamples

GRID_S = 0.005
LENGTH_S = 200.0
CPUS = 2
SLOW = 0.57
SLOWDOWN_OF_TASKS = 0.9  # exponent: tasks slow down a little less than the speed probe
PROBE_S, PROBE_SCATTER, PROBE_EVERY_S = 2e-5, 0.012, 0.05
STOLEN_PER_S, STOLEN_S = 0.125, 0.04


class Machine:
    """A machine with two CPUs; `now_s` is the start of the next step."""

    def __init__(self, seed: int = 0, *, noisy: bool = False) -> None:
        self._random = np.random.default_rng(seed)
        count = int(LENGTH_S / GRID_S)
        self.probe_speed = self._speeds(count) if noisy else np.ones((CPUS, count))
        speed = self.probe_speed**SLOWDOWN_OF_TASKS
        speed /= speed.mean()
        if noisy:
            speed = speed * ~self._stolen(count)
        self.time_s = np.arange(count + 1) * GRID_S
        self.work_s = np.concatenate((np.zeros((CPUS, 1)), np.cumsum(speed * GRID_S, axis=1)), axis=1)
        self.now_s = 1.0

    def end_s(self, begin_s: float, work_s: float, cpu: int) -> float:
        """Return when a CPU that begins at `begin_s` has done the work; both times are relative to `now_s`."""
        done = np.interp(self.now_s + begin_s, self.time_s, self.work_s[cpu]) + work_s
        return float(np.interp(done, self.work_s[cpu], self.time_s)) - self.now_s

    def mean_speed(self, cpus: int) -> float:
        """Return the mean speed of the first `cpus` CPUs until `now_s`."""
        return float(np.mean([np.interp(self.now_s, self.time_s, work) for work in self.work_s[:cpus]]) / self.now_s)

    def speed_samples(self, until_s: float, cpus: int) -> SpeedSamples:
        """Return the samples of the speed probe from `now_s` on."""
        at_s = np.arange(0.0, until_s, PROBE_EVERY_S)
        place = ((self.now_s + at_s) / GRID_S).astype(int)
        scatter = 1 + self._random.normal(0, PROBE_SCATTER, (cpus, len(at_s)))
        took_s = PROBE_S / self.probe_speed[:cpus, place] * scatter
        cpu = np.repeat(np.arange(cpus), len(at_s))
        return SpeedSamples(np.tile(at_s, cpus).tolist(), cpu.tolist(), took_s.ravel().tolist())

    def _speeds(self, count: int) -> np.ndarray:
        level = 0.6 + sum(
            size * np.array([self._drift(count, memory_s) for _ in range(CPUS)])
            for size, memory_s in ((1.5, 0.6), (0.9, 5.0), (0.5, 40.0))
        )
        draws = self._random.random((CPUS, count))
        is_new = self._random.random((CPUS, count)) < GRID_S / 0.02
        last = np.maximum.accumulate(np.where(is_new, np.arange(count), 0), axis=1)
        is_slow = np.take_along_axis(draws, last, axis=1) < 1 / (1 + np.exp(-1.25 * level))
        return np.where(is_slow, SLOW, 1.0)

    def _drift(self, count: int, memory_s: float) -> np.ndarray:
        """Return an Ornstein-Uhlenbeck process of variance 1."""
        from scipy.signal import lfilter  # at the top of the file, this import would cost each pytest process a second

        keep = math.exp(-GRID_S / memory_s)
        steps = self._random.normal(0, math.sqrt(1 - keep * keep), count)
        steps[0] = self._random.normal()
        return np.asarray(lfilter([1.0], [1.0, -keep], steps))

    def _stolen(self, count: int) -> np.ndarray:
        stolen = np.zeros((CPUS, count), dtype=bool)
        for cpu in range(CPUS):
            for place in self._random.integers(0, count, int(STOLEN_PER_S * LENGTH_S)):
                stolen[cpu, place : place + int(self._random.exponential(STOLEN_S) / GRID_S)] = True
        return stolen
