"""Correct the changes between two results for a change of the machine's speed.

Within a result, every case is measured at all speeds of the machine, and its time windows show how strongly a metric
depends on the speed. Between two results, the machine may have been faster or slower all the time. The windows and the
theory limit how strongly a metric depends on that: in a closed network of queues, the rate follows the speed of a
station by at most its utilization, and completely if there is no other station (from Reiser and Lavenberg, Mean-value
analysis, JACM 27, 1980). The remaining uncertainty widens the interval of the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from under_siege.stats.estimates import Estimate, ratio
from under_siege.stats.metrics import estimates_of
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


@dataclass(frozen=True, slots=True)
class SpeedDependence:
    """How a metric depends on the speed: the sign, the slope already corrected within a run, and its estimate."""

    sign: int  # -1 if the metric is larger on a faster machine, so that the correction reduces it; else 1
    corrected: Callable[[SpeedCorrection, Round], float]
    slope: Callable[[SpeedCorrection, Round], Slope]
    bounds: Callable[[Case], Bounds]


class CrossRunChanges:
    """The changes from the cases of one result to those of another."""

    def __init__(self, base: Sequence[Case], new: Sequence[Case], *, is_comparable: bool) -> None:
        """Estimate all metrics.

        Args:
            is_comparable: whether both results used the same speed probe.
        """
        has_samples = all(any(each.speed for case in cases for each in case) for cases in (base, new))
        self.is_common = is_comparable and has_samples
        self._correction = SpeedCorrection(base, beside=new)
        if self.is_common:
            all_estimates = estimates_of([*base, *new], self._correction)
            parts = [{name: estimates[: len(base)] for name, estimates in all_estimates.items()}]
            parts.append({name: estimates[len(base) :] for name, estimates in all_estimates.items()})
        else:
            parts = [estimates_of(cases, SpeedCorrection(cases)) if cases else {} for cases in (base, new)]
        self._estimates = {
            id(case[0]): {name: estimates[index] for name, estimates in part.items()}
            for cases, part in zip((base, new), parts, strict=True)
            for index, case in enumerate(cases)
        }

    def speed_ratio(self, base: Case, new: Case) -> float | None:
        """Return the speed of the machine during `new`, as a multiple of the speed during `base`."""
        speeds = self._log_speed(base), self._log_speed(new)
        return None if speeds[0] is None or speeds[1] is None else float(np.exp(speeds[1] - speeds[0]))

    def change(self, name: str, base: Case, new: Case) -> Estimate | None:
        """Return the metric in `new` as a multiple of `base`, at the same speed; None if one of them is unknown."""
        before, after = (self._estimates[id(case[0])][name] for case in (base, new))
        if before is None or after is None:
            return None
        return self._at_one_speed(name, ratio_between(before, len(base), after, len(new)), base, new)

    def _at_one_speed(self, name: str, change: Estimate, base: Case, new: Case) -> Estimate:
        dependence, before, after = SPEED_DEPENDENCE.get(name), self._log_speed(base), self._log_speed(new)
        if dependence is None or before is None or after is None or before == after:
            return change
        speedup = after - before
        corrected = [dependence.corrected(self._correction, case[0]) for case in (base, new)]
        slopes = [dependence.slope(self._correction, case[0]) for case in (base, new)]
        slope = _combined(slopes, dependence.bounds([*base, *new]))
        noise = SPEED**2 * (1 / len(base) + 1 / len(new))
        trust = max(0.0, 1 - noise / speedup**2)  # don't correct what may be noise of the speed probe
        remaining = trust * slope.value * speedup - (corrected[1] * after - corrected[0] * before)
        added = slope.variance * speedup**2 + trust * (slope.value - sum(corrected) / 2) ** 2 * noise
        variance = change.variance + added
        # Only the variance of the rounds is estimated (Satterthwaite, Biometrics Bulletin 2, 1946).
        degrees = change.degrees * (variance / change.variance) ** 2 if change.degrees else 0.0
        return replace(change, log=change.log + dependence.sign * remaining, variance=variance, degrees=degrees)

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


def _rate_bounds(rounds: Case) -> Bounds:
    cpus_used = [
        (each.cpu_s_per_transaction() or 0.0) * (each.rate.per_s or 0.0) for each in rounds if each.record.samples.cpu_s
    ]
    most = min(1.0, float(np.mean(cpus_used))) if cpus_used else 1.0
    return Bounds(min(_cpu_share(rounds), most), most)


def _cpu_bounds(rounds: Case) -> Bounds:
    return Bounds(_cpu_share(rounds), 1.0)


def _cpu_share(rounds: Case) -> float:
    """Return the share of CPU time in a run of the task alone; 0 unless the task is purely CPU-bound."""
    wall_s, cpu_s = (
        sum(sum(column) for column in columns)
        for columns in ([each.record.alone_wall_s for each in rounds], [each.record.alone_cpu_s for each in rounds])
    )
    share = min(1.0, cpu_s / wall_s) if wall_s else 0.0
    return share if share >= CPU_BOUND else 0.0


_RATE = SpeedDependence(
    -1, SpeedCorrection.coefficient, lambda correction, each: correction.slopes(each)[0], _rate_bounds
)
_RESPONSE = replace(_RATE, sign=1)
_CPU = SpeedDependence(
    1, SpeedCorrection.cpu_coefficient, lambda correction, each: correction.slopes(each)[1], _cpu_bounds
)
# Pings may or may not wait for tasks: correct nothing, but widen the interval.
_PING = SpeedDependence(1, lambda *_: 0.0, lambda *_: Slope(), lambda _: Bounds(-1.0, 1.0))
SPEED_DEPENDENCE = {
    "rate_per_s": _RATE,
    "response_p50_s": _RESPONSE,
    "response_p95_s": _RESPONSE,
    "response_p99_s": _RESPONSE,
    "cpu_s_per_transaction": _CPU,
    "ping_p50_s": _PING,
    "ping_p95_s": _PING,
    "ping_p99_s": _PING,
}
