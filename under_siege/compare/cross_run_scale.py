"""Correct the changes between two results for a change of the machine's speed.

Within a result every case is measured at all speeds of the machine, and the windows show how far a metric follows them.
Between two results, the machine may have been faster or slower all the time. How far a metric follows that is limited
from two sides: by the windows, as far as the speed changed in them, and by theory. In a closed network of queues, the
rate follows the speed of a station by at most its utilization, and completely if there is no other station (from Reiser
and Lavenberg, Mean-value analysis, JACM 27, 1980). The remaining uncertainty widens the interval of the change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from under_siege.stats.estimates import Estimate, ratio
from under_siege.stats.metrics import Measured
from under_siege.stats.rounds_data import Round
from under_siege.stats.speed_correction import Slope, SpeedCorrection

Case = Sequence[Round]

MOST = 1.3  # a task may suffer more than the speed probe from what slows it down, but not at will
SPEED = 0.02  # standard deviation of the logarithm of a speed itself, as is seen on a quiet machine
ONLY_COMPUTES = 0.9  # a task that needs the CPU for so much of its time alone does not wait for anything else
PROBE_MISMATCH = 0.1  # standard deviation of how far tasks that only compute differ in this from the speed probe


class Bounds(NamedTuple):
    """How far a figure can follow the speed at all."""

    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Follows:
    """How a figure goes with the speed: which way, how far that was taken out already, and what is known of it."""

    way: int  # of the correction: -1 where a faster machine gives more of it
    taken: Callable[[SpeedCorrection, Round], float]
    slope: Callable[[SpeedCorrection, Round], Slope]
    bounds: Callable[[Case], Bounds]


class Scale:
    """The changes from the cases of one result to those of another."""

    def __init__(self, base: Sequence[Case], new: Sequence[Case], *, is_comparable: bool) -> None:
        """`is_comparable`: whether both speed probes are the same, so that their speeds can be compared."""
        has_samples = all(any(one.speed for case in cases for one in case) for cases in (base, new))
        self.is_common = is_comparable and has_samples
        self._correction = SpeedCorrection(base, beside=new)
        if self.is_common:
            everything = Measured([*base, *new], self._correction).estimates
            parts = [{name: found[: len(base)] for name, found in everything.items()}]
            parts.append({name: found[len(base) :] for name, found in everything.items()})
        else:
            parts = [Measured(cases, SpeedCorrection(cases)).estimates if cases else {} for cases in (base, new)]
        self._estimates = {
            id(case[0]): {name: found[place] for name, found in part.items()}
            for cases, part in zip((base, new), parts, strict=True)
            for place, case in enumerate(cases)
        }

    def speed_ratio(self, base: Case, new: Case) -> float | None:
        """Return how fast the machine was in the second, as a multiple of the first."""
        speeds = self._log_speed(base), self._log_speed(new)
        return None if speeds[0] is None or speeds[1] is None else float(np.exp(speeds[1] - speeds[0]))

    def change(self, name: str, base: Case, new: Case) -> Estimate | None:
        """Return the figure in the second, as a multiple of the first, at one speed; None where either is not known."""
        before, after = (self._estimates[id(case[0])][name] for case in (base, new))
        if before is None or after is None:
            return None
        return self._at_one_speed(name, between(before, len(base), after, len(new)), base, new)

    def _at_one_speed(self, name: str, change: Estimate, base: Case, new: Case) -> Estimate:
        follows, before, after = FOLLOWS.get(name), self._log_speed(base), self._log_speed(new)
        if follows is None or before is None or after is None or before == after:
            return change
        faster = after - before
        used = [follows.taken(self._correction, case[0]) for case in (base, new)]
        known = _known(
            [follows.slope(self._correction, case[0]) for case in (base, new)], follows.bounds([*base, *new])
        )
        noise = SPEED**2 * (1 / len(base) + 1 / len(new))
        trust = max(0.0, 1 - noise / faster**2)  # what is no more than the noise of the speed probe is not corrected
        left = trust * known.value * faster - (used[1] * after - used[0] * before)
        besides = known.variance * faster**2 + trust * (known.value - sum(used) / 2) ** 2 * noise
        variance = change.variance + besides
        # Only the rounds' part of it is estimated (Satterthwaite, Biometrics Bulletin 2, 1946).
        degrees = change.degrees * (variance / change.variance) ** 2 if change.degrees else 0.0
        return replace(change, log=change.log + follows.way * left, variance=variance, degrees=degrees)

    def _log_speed(self, case: Case) -> float | None:
        """Return the mean over the rounds, 0 at the usual speed of both results."""
        speeds = [speed for one in case if (speed := self._correction.speed(one))] if self.is_common else []
        return float(np.log(speeds).mean()) if len(speeds) == len(case) else None


def between(base: Estimate, rounds: int, new: Estimate, new_rounds: int) -> Estimate:
    """New as a multiple of base, from so many rounds each, that have nothing to do with each other."""
    change = ratio(new, base)
    if not change.degrees or min(rounds, new_rounds) < 2:  # one round doesn't know how rounds differ
        return replace(change, degrees=0.0)
    # What the rounds know by themselves (Welch, Biometrika 34, 1947), if that is more.
    own = base.variance**2 / (rounds - 1) + new.variance**2 / (new_rounds - 1)
    return replace(change, degrees=max(change.degrees, change.variance**2 / own))


def _known(slopes: Sequence[Slope], bounds: Bounds) -> Slope:
    """Return what the windows say and what is possible, each weighted by how exact it is."""
    possible = Slope(sum(bounds) / 2, (bounds.most - bounds.least) ** 2 / 12 + PROBE_MISMATCH**2)
    said = Slope(sum(slope.value for slope in slopes) / 2, sum(slope.variance for slope in slopes) / 2)
    weights = [1 / possible.variance, 1 / max(said.variance, 1e-9)]
    both = (weights[0] * possible.value + weights[1] * said.value) / sum(weights)
    return Slope(min(max(both, 0.0), MOST), 1 / sum(weights))


def _of_rate(rounds: Case) -> Bounds:
    used = [
        (one.cpu_s_per_transaction() or 0.0) * (one.rate.per_s or 0.0) for one in rounds if one.record.samples.cpu_s
    ]
    most = min(1.0, float(np.mean(used))) if used else 1.0
    return Bounds(min(_computing(rounds), most), most)


def _of_cpu(rounds: Case) -> Bounds:
    return Bounds(_computing(rounds), 1.0)


def _computing(rounds: Case) -> float:
    """Return the share of its time alone that the task needs the CPU for; 0 where it also waits."""
    wall_s, cpu_s = (
        sum(sum(column) for column in columns)
        for columns in ([one.record.alone_wall_s for one in rounds], [one.record.alone_cpu_s for one in rounds])
    )
    share = min(1.0, cpu_s / wall_s) if wall_s else 0.0
    return share if share >= ONLY_COMPUTES else 0.0


_RATE = Follows(-1, SpeedCorrection.coefficient, lambda correction, one: correction.slopes(one)[0], _of_rate)
_RESPONSE = replace(_RATE, way=1)
_CPU = Follows(1, SpeedCorrection.cpu_coefficient, lambda correction, one: correction.slopes(one)[1], _of_cpu)
# It may wait for tasks, or for none: nothing is taken out, but so uncertain it is.
_PING = Follows(1, lambda *_: 0.0, lambda *_: Slope(), lambda _: Bounds(-1.0, 1.0))
FOLLOWS = {
    "rate_per_s": _RATE,
    "response_p50_s": _RESPONSE,
    "response_p95_s": _RESPONSE,
    "response_p99_s": _RESPONSE,
    "cpu_s_per_transaction": _CPU,
    "ping_p50_s": _PING,
    "ping_p95_s": _PING,
    "ping_p99_s": _PING,
}
