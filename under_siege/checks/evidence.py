"""Collect what the rules need: the cost of the task at the current CPU speed, and other activity on the machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import NamedTuple

from under_siege.stats.estimates import Estimate
from under_siege.stats.rounds_data import Round
from under_siege.stats.speed_correction import SpeedCorrection, other_work, stolen

DEVIATIONS = 3.0  # standard deviations that are allowed for noise
DRIFT_OF_RATES = 0.03  # difference of two cases within a minute without a cause, as observed on a shared machine
LEAST_FOR_RUNS = 0.15  # accuracy of a single run of a task, because of caches, interrupts, and a warmer interpreter
OTHER_WORK, STEAL = 0.05, 0.02  # shares of all CPUs; on a quiet machine other programs use less than 0.01
NORMAL = 1.4826  # the standard deviation of a normal distribution as a multiple of its median absolute deviation

# What the task needs is the mean of all runs alone. Groups of them, from before and after a siege, usually differ by
# this much (standard deviation of the logarithm), which counts like so many groups.
USUAL_DEVIATION_OF_RUNS, USUAL_GROUPS = 0.04, 4
LEAST_VARIANCE_OF_NEED = 0.01**2

Look = Callable[[Round, "Evidence"], str | None]


@dataclass(frozen=True, slots=True)
class Needs:
    """What the task takes with nothing beside it: waiting, and computing at any speed."""

    wait_s: float
    work: float  # CPU seconds at speed 1 of the speed probe, or just seconds where there was none
    scatter: float  # of `work`: a robust standard deviation of its logarithm

    def wall_s(self, speed: float) -> float:
        """Return how long it takes at that speed."""
        return self.wait_s + self.work / speed

    def cpu_s(self, speed: float) -> float:
        """Return how much CPU time it takes at that speed."""
        return self.work / speed

    @property
    def allowance(self) -> float:
        """How much less than this an honest run may take, as a fraction."""
        return LEAST_FOR_RUNS + DEVIATIONS * self.scatter


class _Run(NamedTuple):
    """A run of the task alone, and the machine's speed at that moment."""

    at_s: float
    wall_s: float
    cpu_s: float
    speed: float

    @property
    def wait_s(self) -> float:
        return self.wall_s - self.cpu_s

    @property
    def work(self) -> float:
        return self.cpu_s * self.speed


class Evidence:
    """All that a judgement needs beside the rounds themselves."""

    def __init__(self, cases: Sequence[Sequence[Round]], correction: SpeedCorrection) -> None:
        self.correction = correction
        by_work: dict[object, list[Round]] = {}
        for one in (one for case in cases for one in case if one.record.alone_wall_s):
            by_work.setdefault(one.case.work, []).append(one)
        self._rounds = by_work
        self._runs = {work: [_runs(one) for one in rounds] for work, rounds in by_work.items()}
        self._scatter = {work: _scatter(runs) for work, runs in self._runs.items()}
        self._needs: dict[Round, Needs | None] = {}
        self._cpu_needs: dict[object, Estimate | None] = {}
        self._said: dict[tuple[Look, Round], str | None] = {}

    def asked(self, look: Look, one: Round) -> str | None:
        """Return what a rule says about a round; each is asked once."""
        if (look, one) not in self._said:
            self._said[look, one] = look(one, self)
        return self._said[look, one]

    def needs(self, one: Round) -> Needs | None:
        """Return what the task takes, from the runs around this round; from all where there are none."""
        if one not in self._needs:
            self._needs[one] = self._needed(one)
        return self._needs[one]

    def _needed(self, one: Round) -> Needs | None:
        work = one.case.work
        if work not in self._runs:
            return None
        runs = _runs(one) if one.record.alone_wall_s else [run for runs in self._runs[work] for run in runs]
        wait_s = max(0.0, min(run.wait_s for run in runs))
        return Needs(wait_s, median(run.work for run in runs), self._scatter[work] / len(runs) ** 0.5)

    def cpu_need(self, one: Round) -> Estimate | None:
        """Return the CPU seconds of the task at the usual speed, from all runs of the result; None if unknown."""
        work = one.case.work
        if work not in self._cpu_needs:
            self._cpu_needs[work] = self._cpu_needed(work)
        return self._cpu_needs[work]

    def _cpu_needed(self, work: object) -> Estimate | None:
        groups = []
        for one, runs in zip(self._rounds.get(work, []), self._runs.get(work, []), strict=True):
            usual = (self.correction.usual if one.speeds is not None else None) or 1.0
            power = self.correction.cpu_coefficient(one)
            for of_group in ([run for run in runs if run.at_s < 0], [run for run in runs if run.at_s >= 0]):
                logs = [math.log(run.cpu_s) + power * math.log(run.speed / usual) for run in of_group if run.cpu_s > 0]
                groups += [fmean(logs)] if logs else []
        if not groups:
            return None
        middle = fmean(groups)
        squares = sum((one - middle) ** 2 for one in groups) + USUAL_GROUPS * USUAL_DEVIATION_OF_RUNS**2
        degrees = len(groups) - 1 + USUAL_GROUPS
        variance = squares / degrees / len(groups) + LEAST_VARIANCE_OF_NEED
        return Estimate(middle, variance, degrees, len(groups), variance, degrees)

    def speeds(self, one: Round) -> tuple[float, float]:
        """Return the mean speed of the steady part, and the highest of any CPU at any moment."""
        if one.speeds is None or one.speed is None:
            return 1.0, 1.0
        return one.speed, one.speeds.highest(0.0, one.record.load_s or 0.0)


def is_busy(one: Round) -> bool:
    """Return whether the machine had so much other work that single answers are late."""
    return other_work(one) > OTHER_WORK or stolen(one) > STEAL


def _runs(one: Round) -> list[_Run]:
    """Return those around a case."""
    record, runs = one.record, []
    for place, (wall_s, cpu_s) in enumerate(zip(record.alone_wall_s, record.alone_cpu_s, strict=False)):
        at_s, speed = 0.0, 1.0
        if place < min(len(record.alone_at_s), len(record.alone_on_cpu)):
            at_s = record.alone_at_s[place]
            if one.speeds is not None:
                speed = one.speeds.at(at_s + wall_s / 2, record.alone_on_cpu[place])
        runs.append(_Run(at_s, wall_s, cpu_s, speed))
    return runs


def _scatter(several: Sequence[Sequence[_Run]]) -> float:
    """Return how far single runs differ from those around the same case, at the same speed."""
    off = []
    for runs in several:
        usual, wait_s = median(run.speed for run in runs), min(run.wait_s for run in runs)
        took = [math.log(max(run.cpu_s * (run.speed / usual) + wait_s, 1e-9)) for run in runs]
        middle = median(took)
        off += [abs(one - middle) for one in took]
    return NORMAL * median(off or [0.0])
