"""Correct the changes between two results for a change of the machine's speed.

Within a result, every case is measured at all speeds of the machine, and its time windows show how strongly a metric
depends on the speed. Between two results, the machine may have been faster or slower all the time. The windows and the
theory limit how strongly a metric depends on that: in a closed network of queues, the rate follows the speed of a
station by at most its utilization, and completely if there is no other station (from Reiser and Lavenberg, Mean-value
analysis, JACM 27, 1980). The remaining uncertainty widens the interval of the change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from under_siege.stats.estimates import Estimate, ratio
from under_siege.stats.metrics import Estimates, estimates_of
from under_siege.stats.rounds_data import Round
from under_siege.stats.speed_correction import Slope, SpeedCorrection

Case = Sequence[Round]

MOST = 1.3  # upper limit of a slope; a slowdown can hit a task harder than the speed probe, but only to some degree
SPEED = 0.02  # standard deviation of the logarithm of a measured speed, on a quiet machine
CPU_BOUND = 0.9  # share of CPU time; from here on, a task counts as purely CPU-bound
PROBE_MISMATCH = 0.1  # standard deviation of the slopes of purely CPU-bound tasks


class Bounds(NamedTuple):
    """The possible range of a slope: 1 means that the metric is proportional to the speed, 0 that it is constant."""

    least: float
    most: float


class Changes(Protocol):
    """The changes between two sides."""

    def speed_ratio(self, base: Case, new: Case) -> float | None: ...
    def change(self, name: str, base: Case, new: Case) -> Estimate | None: ...


class ChangesInOneRun:
    """The changes between cases of one result, whose rounds were interleaved on the same machine."""

    def __init__(self, cases: Sequence[Case], measured: Estimates) -> None:
        self._places = {case[0]: place for place, case in enumerate(cases)}  # by the first round
        self._measured = measured

    def speed_ratio(self, *_: Case) -> None:
        """Return None: the speed needs no further adjustment."""

    def change(self, name: str, base: Case, new: Case) -> Estimate | None:
        """Return the metric in `new` as a multiple of `base`; None if one of them is unknown."""
        before, after = (self._measured[name][self._places[case[0]]] for case in (base, new))
        return before and after and ratio_between(before, len(base), after, len(new))


class CrossRunChanges:
    """The changes from the cases of one result to those of another."""

    def __init__(self, base: Sequence[Case], new: Sequence[Case], *, is_comparable: bool) -> None:
        """Estimate all metrics; `is_comparable`: whether both results used the same speed probe."""
        has_samples = all(any(each.speed for case in cases for each in case) for cases in (base, new))
        self.is_common = is_comparable and has_samples
        self._correction = SpeedCorrection(base, beside=new)
        self._estimates: dict[Round, dict[str, Estimate | None]] = {}  # by the first round of the case
        for cases in [[*base, *new]] if self.is_common else [base, new]:
            by_metric = estimates_of(cases, self._correction if self.is_common else SpeedCorrection(cases))
            for index, case in enumerate(cases):
                self._estimates[case[0]] = {name: estimates[index] for name, estimates in by_metric.items()}

    def speed_ratio(self, base: Case, new: Case) -> float | None:
        """Return the speed of the machine during `new`, as a multiple of the speed during `base`."""
        speeds = self._log_speed(base), self._log_speed(new)
        return None if speeds[0] is None or speeds[1] is None else float(np.exp(speeds[1] - speeds[0]))

    def change(self, name: str, base: Case, new: Case) -> Estimate | None:
        """Return the metric in `new` as a multiple of `base`, at the same speed; None if one of them is unknown."""
        before, after = (self._estimates[case[0]][name] for case in (base, new))
        if before is None or after is None:
            return None
        return self._at_one_speed(name, ratio_between(before, len(base), after, len(new)), base, new)

    def _at_one_speed(self, name: str, change: Estimate, base: Case, new: Case) -> Estimate:
        before, after = self._log_speed(base), self._log_speed(new)
        if name == "memory_bytes" or before is None or after is None or before == after:
            return change
        speedup = after - before
        corrected, bounds = self._slopes(name, base, new)  # the metrics are corrected by these slopes already
        slope = _combined(corrected, bounds)
        noise = SPEED**2 * (1 / len(base) + 1 / len(new))
        trust = max(0.0, 1 - noise / speedup**2)  # don't correct what may be noise of the speed probe
        remaining = trust * slope.value * speedup - (corrected[1].value * after - corrected[0].value * before)
        uncertain = slope.value - (corrected[0].value + corrected[1].value) / 2
        variance = change.variance + (slope.variance * speedup**2 + trust * uncertain**2 * noise)
        # Only the variance of the rounds is estimated (Satterthwaite, Biometrics Bulletin 2, 1946).
        degrees = change.degrees * (variance / change.variance) ** 2 if change.degrees else 0.0
        sign = -1 if name == "rate_per_s" else 1  # the rate is larger on a faster machine, so it is reduced
        return replace(change, log=change.log + sign * remaining, variance=variance, degrees=degrees)

    def _slopes(self, name: str, base: Case, new: Case) -> tuple[list[Slope], Bounds]:
        """Return how a metric depends on the speed: as estimated within each result, and the theoretical range."""
        rates, cpus = zip(*(self._correction.slopes(case[0]) for case in (base, new)), strict=True)
        if name.startswith("ping_"):  # pings may or may not wait for tasks: correct nothing, but widen the interval
            return [Slope(), Slope()], Bounds(-1.0, 1.0)
        rounds = [*base, *new]
        if name == "cpu_s_per_transaction":
            return list(cpus), Bounds(_cpu_share(rounds), 1.0)
        cpus_used = [
            (each.cpu_s_per_transaction() or 0.0) * (each.rate.per_s or 0.0)
            for each in rounds
            if each.record.samples.cpu_s
        ]
        most = min(1.0, float(np.mean(cpus_used))) if cpus_used else 1.0
        return list(rates), Bounds(min(_cpu_share(rounds), most), most)

    def _log_speed(self, case: Case) -> float | None:
        """Return the mean logarithm over the rounds; 0 is the mean speed of both results."""
        speeds = [speed for each in case if (speed := self._correction.speed(each))] if self.is_common else []
        return float(np.log(speeds).mean()) if len(speeds) == len(case) else None


def ratio_between(base: Estimate, rounds: int, new: Estimate, new_rounds: int) -> Estimate:
    """Return `new` as a multiple of `base`; their rounds are independent."""
    change = ratio(new, base)
    if not change.degrees or min(rounds, new_rounds) < 2:  # one round is not enough to estimate the variance
        return replace(change, degrees=0.0)
    # The degrees of freedom of the rounds alone (Welch, Biometrika 34, 1947), if there are more.
    own = base.variance**2 / (rounds - 1) + new.variance**2 / (new_rounds - 1)
    return replace(change, degrees=max(change.degrees, change.variance**2 / own))


def _combined(slopes: Sequence[Slope], bounds: Bounds) -> Slope:
    """Return the mean of the measured slopes and the theoretical range, weighted by their precision."""
    possible = Slope(sum(bounds) / 2, (bounds.most - bounds.least) ** 2 / 12 + PROBE_MISMATCH**2)
    measured = Slope(sum(slope.value for slope in slopes) / 2, sum(slope.variance for slope in slopes) / 2)
    weights = [1 / possible.variance, 1 / max(measured.variance, 1e-9)]
    value = (weights[0] * possible.value + weights[1] * measured.value) / sum(weights)
    return Slope(min(max(value, 0.0), MOST), 1 / sum(weights))


def _cpu_share(rounds: Case) -> float:
    """Return the share of CPU time in a run of the task alone; 0 unless the task is purely CPU-bound."""
    wall_s = sum(sum(each.record.alone_wall_s) for each in rounds)
    share = min(1.0, sum(sum(each.record.alone_cpu_s) for each in rounds) / wall_s) if wall_s else 0.0
    return share if share >= CPU_BOUND else 0.0
