"""What the rules lean on: what the task needs at the speed of a moment, and how far equal things differed here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from common.report.figures.estimates import ACCURACY, Estimate
from common.report.figures.middle import median
from common.report.figures.rounds import Round
from common.report.figures.weather import Weather

DEVIATIONS = 3.0  # standard deviations that are allowed for noise
DRIFT_OF_RATES = 0.03  # how far two cases differ within a minute without a cause, as was seen on a shared machine
LEAST_FOR_RUNS = 0.15  # a single run of a task is no more exact than that: caches, interrupts, a warmer interpreter
OTHER_WORK, STEAL = 0.05, 0.02  # shares of all CPUs; on a quiet machine other work takes less than 0.01
NORMAL = 1.4826  # times the median absolute deviation is the standard deviation of a normal distribution

Look = Callable[[Round, "Evidence"], str | None]


@dataclass(frozen=True, slots=True)
class Needs:
    """What the task takes with nothing beside it: waiting, and computing at any speed."""

    wait_s: float
    work: float  # CPU seconds at speed 1 of the metronome, or just seconds where there was none
    scatter: float  # of `work`: a robust standard deviation of its logarithm

    def wall_s(self, speed: float) -> float:
        """How long it takes at that speed."""
        return self.wait_s + self.work / speed

    def cpu_s(self, speed: float) -> float:
        """How much CPU time it takes at that speed."""
        return self.work / speed

    @property
    def allowance(self) -> float:
        """How much less than this an honest run may take, as a fraction."""
        return LEAST_FOR_RUNS + DEVIATIONS * self.scatter


class _Run(NamedTuple):
    """A run of the task alone, and the machine's speed at that moment."""

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
    """All that a judgement needs beside the round itself."""

    def __init__(self, cases: Sequence[Sequence[Round]], weather: Weather, rates: Sequence[Estimate | None]) -> None:
        self.weather = weather
        self._scatter_of_rates = {
            id(one): estimate for case, estimate in zip(cases, rates, strict=True) for one in case
        }
        by_work: dict[object, list[Round]] = {}
        for one in (one for case in cases for one in case if one.record.alone_wall_s):
            by_work.setdefault(one.case.work, []).append(one)
        self._runs = {work: [_runs(one) for one in rounds] for work, rounds in by_work.items()}
        self._scatter = {work: _scatter(runs) for work, runs in self._runs.items()}
        self._needs: dict[Round, Needs | None] = {}
        self._said: dict[tuple[Look, Round], str | None] = {}

    def asked(self, look: Look, one: Round) -> str | None:
        """What somebody who looks at a round says, and said before: others lean on that."""
        if (look, one) not in self._said:
            self._said[look, one] = look(one, self)
        return self._said[look, one]

    def needs(self, one: Round) -> Needs | None:
        """From the runs around this very case; from all there are where there are none, as in older results."""
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

    def speeds(self, one: Round) -> tuple[float, float]:
        """The mean speed of the steady part, and the highest of any CPU at any moment."""
        if one.speeds is None or one.speed is None:
            return 1.0, 1.0
        return one.speed, one.speeds.highest(0.0, one.record.load_s or 0.0)

    def allowed_above_ceiling(self, one: Round) -> float:
        """How much more than its ceiling an honest case may reach, as a fraction.

        What the case itself scatters does not count: a liar must not buy himself an allowance.
        """
        assert one.ceiling is not None
        own = self._scatter_of_rates.get(id(one.ceiling))
        known = own is not None and own.degrees
        scatter = own.round_variance**0.5 if own and known else _scatter_of_batches(one.ceiling)
        return ACCURACY + DRIFT_OF_RATES + DEVIATIONS * 2**0.5 * scatter + other_work(one.ceiling)


def is_busy(one: Round) -> bool:
    """Whether the machine had so much other work that every figure tells of that."""
    machine = one.record.machine
    if machine is None or not machine.total_s:
        return False
    return other_work(one) > OTHER_WORK or machine.steal_s / machine.total_s > STEAL


def other_work(one: Round) -> float:
    """What neither the server nor this program took of all CPUs, as a fraction; 0 where that isn't known."""
    record, machine = one.record, one.record.machine
    if machine is None or not machine.total_s:
        return 0.0
    ours_s = sum(filter(None, (one.server_cpu_s(), record.tool_cpu_s, record.bench_cpu_s, record.services_cpu_s)))
    return max(0.0, (machine.busy_s - ours_s) / machine.total_s)


def _runs(one: Round) -> list[_Run]:
    """Those around a case."""
    record, runs = one.record, []
    for place, (wall_s, cpu_s) in enumerate(zip(record.alone_wall_s, record.alone_cpu_s, strict=False)):
        speed = 1.0
        if one.speeds is not None and place < min(len(record.alone_at_s), len(record.alone_on_cpu)):
            speed = one.speeds.at(record.alone_at_s[place] + wall_s / 2, record.alone_on_cpu[place])
        runs.append(_Run(wall_s, cpu_s, speed))
    return runs


def _scatter(several: Sequence[Sequence[_Run]]) -> float:
    """How far single runs differ from those around the same case, at the same speed."""
    off = []
    for runs in several:
        usual, wait_s = median(run.speed for run in runs), min(run.wait_s for run in runs)
        took = [math.log(max(run.cpu_s * (run.speed / usual) + wait_s, 1e-9)) for run in runs]
        middle = median(took)
        off += [abs(one - middle) for one in took]
    return NORMAL * median(off or [0.0])


def _scatter_of_batches(one: Round) -> float:
    """Of a single round, from its parts; of one too short for that, as far as the machine's speed changed meanwhile."""
    rates = [rate for _, _, rate in one.batches]
    if len(rates) < 2:
        moments = np.ones(1) if one.speeds is None else one.speeds.moments(*one.steady_part)
        return max(DRIFT_OF_RATES, float(np.std(np.log(moments))))
    return float(np.std(np.log(rates), ddof=1) / len(rates) ** 0.5)
