"""The weather: what the machine's speed did to the figures of the cases, and what they would be at its usual speed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from common.report.figures.control import NOT_CORRECTED, Slope, Windows
from common.report.figures.rounds import Round

Floats = NDArray[np.float64]
Case = Sequence[Round]

SURE_ERRORS = 3.0  # standard errors, beyond which the load of a server itself is taken to slow down the CPUs


class Weather:
    """The usual speed, and how far the rates and CPU times of each case follow the speed.

    The usual speed is the mean over all rounds of all cases. What a server's own load does to the speed (a busy
    sibling on the same core, less turbo where more cores compute) is the truth of that strategy and no weather: it is
    estimated and left in.
    """

    def __init__(self, cases: Sequence[Case], *, beside: Sequence[Case] = (), corrected: bool = True) -> None:
        """`beside` are the cases of another result of the same machine, that are put on the same scale."""
        sittings = [_known(of_result) for of_result in (cases, beside)]
        self._by_load, self._error_of_load = _slope_by_load(sittings)
        known = [one for rounds in sittings for one in rounds]
        self._usual_load = _mean_load(known) if known else 0.0
        self._speeds: dict[Round, float] = {}
        speeds = [np.array([self._speed_of(one) for one in rounds]) for rounds in sittings]
        self.usual = float(np.concatenate(speeds).mean()) if known else None
        # What is random in the mean of a series that also drifts (von Neumann, Ann. Math. Stat. 12, 1941).
        steps = np.concatenate([np.diff(np.log(of_result)) for of_result in speeds])
        self._variance_of_usual = float((steps**2).mean() / 2 / len(known)) if len(steps) else 0.0
        self._of_rates: dict[int, Slope] = {}
        self._of_cpu: dict[int, Slope] = {}
        self._slopes: dict[int, tuple[Slope, Slope]] = {}
        if corrected and self.usual:
            for job in dict.fromkeys(one.case.job for one in known):
                self._fit([case for case in (*cases, *beside) if case[0].case.job == job])

    def speed(self, one: Round) -> float | None:
        """As a multiple of the usual one."""
        return self._speed_of(one) / self.usual if one.speed and self.usual else None

    def lowest_and_highest(self, one: Round) -> tuple[float, float] | None:
        """Of the moments of the steady part, as multiples of the usual speed."""
        if one.lowest_and_highest is None or not self.usual:
            return None
        lowest, highest = one.lowest_and_highest
        usual = self.usual * self._of_load(one.load_beside)
        return lowest / usual, highest / usual

    def coefficient(self, one: Round) -> float:
        """How far the rate follows the speed: 0 where it does not, about 1 where it is the speed's."""
        return self._of_rates.get(id(one), NOT_CORRECTED).value

    def cpu_coefficient(self, one: Round) -> float:
        """How far the work that is done in a CPU second follows the speed."""
        return self._of_cpu.get(id(one), NOT_CORRECTED).value

    def slopes(self, one: Round) -> tuple[Slope, Slope]:
        """What the windows alone say of both coefficients, also where it may be chance."""
        return self._slopes.get(id(one), (Slope(), Slope()))

    def rate(self, one: Round) -> float | None:
        """What the rate would be at the usual speed."""
        return one.rate.per_s and one.rate.per_s * self._times(one, -self.coefficient(one))

    def cpu_s(self, one: Round) -> float | None:
        """What the CPU time of a transaction would be at the usual speed."""
        used_s = one.cpu_s_per_transaction()
        return used_s and used_s * self._times(one, self.cpu_coefficient(one))

    def variance_of_rate(self, case: Case) -> float:
        """What the correction itself adds to the variance of the logarithm of the corrected rate."""
        coefficient = self._of_rates.get(id(case[0]), NOT_CORRECTED)
        by_load = (_mean_load(case) - self._usual_load) * self._error_of_load
        return (
            coefficient.value**2 * (self._variance_of_usual + by_load**2)
            + coefficient.variance * self._mean_log(case) ** 2
        )

    def variance_of_share(self, case: Case) -> float:
        """The same for its share of the ceiling, where what both have in common drops out."""
        ceiling = [one.ceiling for one in case if one.ceiling is not None]
        if not ceiling:
            return 0.0
        coefficient = self._of_rates.get(id(case[0]), NOT_CORRECTED)
        by_load = (_mean_load(case) - _mean_load(ceiling)) * self._error_of_load
        between = self._mean_log(case) - self._mean_log(ceiling)
        return (coefficient.value * by_load) ** 2 + coefficient.variance * between**2

    def _mean_log(self, case: Case) -> float:
        return sum(math.log(speed) if (speed := self.speed(one)) else 0.0 for one in case) / len(case)

    def response_s(self, one: Round, seconds: float | None) -> float | None:
        """What a response time would be at the usual speed: in a closed loop it is the users divided by the rate."""
        return seconds and seconds * self._times(one, self.coefficient(one))

    def of_ceiling(self, one: Round) -> float | None:
        """The share of the ceiling of the same round, both at the usual speed."""
        rate, ceiling = self.rate(one), self.rate(one.ceiling) if one.ceiling else None
        return rate / ceiling if rate and ceiling else None

    def _times(self, one: Round, power: float) -> float:
        speed = self.speed(one)
        return speed**power if speed else 1.0

    def _speed_of(self, one: Round) -> float:
        """Without what the server's own load makes of it."""
        if one not in self._speeds:
            assert one.speed is not None
            self._speeds[one] = one.speed / self._of_load(one.load_beside)
        return self._speeds[one]

    def _of_load(self, load: float) -> float:
        """What the server's own load makes of the speed."""
        return math.exp(self._by_load * load)

    def _fit(self, cases: Sequence[Case]) -> None:
        windows, rounds = Windows(*self._windows(cases)), Windows(*self._rounds(cases))
        fitted = (windows.coefficients(), rounds.coefficients(), windows.slopes(), rounds.slopes())
        for case, rate, cpu, of_rate, of_cpu in zip(cases, *fitted, strict=True):
            for one in case:
                self._of_rates[id(one)], self._of_cpu[id(one)] = rate, cpu
                self._slopes[id(one)] = of_rate, of_cpu

    def _windows(self, cases: Sequence[Case]) -> tuple[list[Floats], list[Floats]]:
        """Logarithms of speeds and rates in the batches of each case."""
        speeds, rates = [], []
        for case in cases:
            known = [one for one in case if one.speed]
            speeds.append(np.log([speed for one in known for speed in self._speeds_of_batches(one)]))
            rates.append(np.log([rate for one in known for *_, rate in one.batches]))
        return speeds, rates

    def _speeds_of_batches(self, one: Round) -> list[float]:
        if not self._by_load:
            return one.speeds_of_batches
        pairs = zip(one.speeds_of_batches, one.loads_of_batches, strict=True)
        return [speed / self._of_load(load) for speed, load in pairs]

    def _rounds(self, cases: Sequence[Case]) -> tuple[list[Floats], list[Floats]]:
        """Logarithms of speeds and of transactions per CPU second in the rounds of each case."""
        speeds, work = [], []
        for case in cases:
            used = [(one, used_s) for one in case if one.speed and (used_s := one.cpu_s_per_transaction())]
            speeds.append(np.log([self._speed_of(one) for one, _ in used]))
            work.append(-np.log([used_s for _, used_s in used]))
        return speeds, work


def _mean_load(rounds: Sequence[Round]) -> float:
    return sum(one.load_beside for one in rounds) / len(rounds)


def _known(cases: Sequence[Case]) -> list[Round]:
    """The rounds of a result that have a speed, in the order in which they were measured."""
    known = [one for case in cases for one in case if one.speed and one.completed]
    return sorted(known, key=lambda one: one.record.load_began_s or 0.0)


def _slope_by_load(sittings: Sequence[Sequence[Round]]) -> tuple[float, float]:
    """How the logarithm of the speed falls with the load on the other CPUs, and its error; 0 where it may be chance.

    Each result around its own mean: that the machine was slower another day has nothing to do with the load.
    """
    centered = []
    for rounds in sittings:
        loads = np.array([one.load_beside for one in rounds])
        speeds = np.log([one.speed for one in rounds if one.speed])
        if len(loads) >= 4 and np.ptp(loads) >= 0.1:
            centered.append((loads - loads.mean(), speeds - speeds.mean()))
    if not centered:
        return 0.0, 0.0
    x, y = (np.concatenate(column) for column in zip(*centered, strict=True))
    slope = float(x @ y / (x @ x))
    error = (float(((y - slope * x) ** 2).sum()) / (len(x) - 1 - len(centered)) / float(x @ x)) ** 0.5
    return (slope, error) if slope < -SURE_ERRORS * error else (0.0, 0.0)
