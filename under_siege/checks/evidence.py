"""Collect what the rules need: the cost of the task at the current CPU speed, and other activity on the machine."""

import itertools
import math
from collections.abc import Iterable, Sequence
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


class Needs(NamedTuple):
    """What the task takes with nothing beside it: waiting, and computing at any speed."""

    wait_s: float
    work: float  # CPU seconds at speed 1 of the speed probe, or just seconds where there was none
    scatter: float  # robust standard deviation of the logarithm of `work`

    @property
    def allowance(self) -> float:
        """Return how much less than this an honest run may take, as a fraction."""
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


class Evidence:
    """What the rules know from all rounds of a result."""

    def __init__(self, cases: Sequence[Sequence[Round]], correction: SpeedCorrection) -> None:
        self._runs: dict[object, dict[Round, list[_Run]]] = {}
        for measured in itertools.chain(*cases):
            if runs := _runs(measured):
                self._runs.setdefault(measured.case.work, {})[measured] = runs
        self._scatter = {work: _scatter(runs.values()) for work, runs in self._runs.items()}
        self._cpu_needs = {work: _cpu_need(runs, correction) for work, runs in self._runs.items()}

    def needs(self, case_round: Round) -> Needs | None:
        """Return what the task takes, from the runs around this round; from all where there are none."""
        by_round = self._runs.get(case_round.case.work)
        if by_round is None:
            return None
        runs = by_round.get(case_round) or [run for runs in by_round.values() for run in runs]
        wait_s, work = max(0.0, min(run.wait_s for run in runs)), median(run.cpu_s * run.speed for run in runs)
        return Needs(wait_s, work, self._scatter[case_round.case.work] / len(runs) ** 0.5)

    def cpu_need(self, case_round: Round) -> Estimate | None:
        """Return the CPU seconds of the task at the usual speed, from all runs of the result; None if unknown."""
        return self._cpu_needs.get(case_round.case.work)


def is_busy(case_round: Round) -> bool:
    """Return whether the machine had so much other work that single answers are late."""
    return other_work(case_round) > OTHER_WORK or stolen(case_round) > STEAL


def _runs(case_round: Round) -> list[_Run]:
    record, runs = case_round.record, []
    for index, (wall_s, cpu_s) in enumerate(zip(record.alone_wall_s, record.alone_cpu_s, strict=False)):
        at_s, speed = 0.0, 1.0
        if index < min(len(record.alone_at_s), len(record.alone_on_cpu)):
            at_s = record.alone_at_s[index]
            if case_round.speeds is not None:
                speed = case_round.speeds.at(at_s + wall_s / 2, record.alone_on_cpu[index])
        runs.append(_Run(at_s, wall_s, cpu_s, speed))
    return runs


def _scatter(several: Iterable[Sequence[_Run]]) -> float:
    """Return how far single runs differ from those around the same case, at the same speed."""
    deviations = []
    for runs in several:
        usual, wait_s = median(run.speed for run in runs), min(run.wait_s for run in runs)
        logs = [math.log(max(run.cpu_s * (run.speed / usual) + wait_s, 1e-9)) for run in runs]
        middle = median(logs)
        deviations += [abs(log - middle) for log in logs]
    return NORMAL * median(deviations)


def _cpu_need(runs_of: dict[Round, list[_Run]], correction: SpeedCorrection) -> Estimate | None:
    groups = []
    for case_round, runs in runs_of.items():
        usual = (correction.usual if case_round.speeds is not None else None) or 1.0
        power = correction.cpu_coefficient(case_round)
        for group in ([run for run in runs if run.at_s < 0], [run for run in runs if run.at_s >= 0]):
            logs = [math.log(run.cpu_s) + power * math.log(run.speed / usual) for run in group if run.cpu_s > 0]
            groups += [fmean(logs)] if logs else []
    if not groups:
        return None
    middle = fmean(groups)
    squares = sum((log - middle) ** 2 for log in groups) + USUAL_GROUPS * USUAL_DEVIATION_OF_RUNS**2
    degrees = len(groups) - 1 + USUAL_GROUPS
    variance = squares / degrees / len(groups) + LEAST_VARIANCE_OF_NEED
    return Estimate(middle, variance, degrees, len(groups), variance, degrees)
