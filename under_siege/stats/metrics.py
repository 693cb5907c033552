"""The metrics that cases are compared by: the value of a round, and the estimate from all rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from under_siege.stats.estimates import Estimate, estimates, ratio, weighted_estimates
from under_siege.stats.rounds_data import Round
from under_siege.stats.speed_correction import SpeedCorrection

Disturbance = Callable[[Round, SpeedCorrection], float]


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a round, at the usual speed of the machine where that is known; and whether more of it is better."""

    of_round: Callable[[Round, SpeedCorrection], float | list[float | None] | None]
    more_is_better: bool = False
    needs_every_round: bool = False  # where a round without one says that it is large
    # The variance that a known disturbance adds to the logarithm of a round's value. Where there is one, noise comes
    # from the machine, and its variance is pooled over all cases.
    disturbance: Disturbance | None = None


def _response(percent: float) -> Measure:
    return Measure(lambda one, correction: correction.response_s(one, one.response_s(percent)), needs_every_round=True)


def _ping(percent: float) -> Measure:
    """Of each half of a siege: pings are many, and differ so much between cases that few rounds would tell little."""
    return Measure(lambda one, _: [half.percentile(percent) for half in one.halves_of_pings], needs_every_round=True)


MEASURES = {
    "rate_per_s": Measure(
        lambda one, correction: correction.rate(one),
        more_is_better=True,
        disturbance=lambda one, correction: correction.rate_variance(one),
    ),
    "response_p50_s": _response(50),
    "response_p95_s": _response(95),
    "response_p99_s": _response(99),
    "ping_p50_s": _ping(50),
    "ping_p95_s": _ping(95),
    "ping_p99_s": _ping(99),
    "cpu_s_per_transaction": Measure(
        lambda one, correction: correction.cpu_s(one),
        disturbance=lambda one, correction: correction.cpu_variance(one),
    ),
    "memory_bytes": Measure(lambda one, _: one.memory_bytes()),
}

SPEED_CORRECTED = tuple(name for name, measure in MEASURES.items() if measure.disturbance)


class Measured:
    """The estimates of every figure of every case; cases of one job help to tell each other's noise."""

    def __init__(self, cases: Sequence[Sequence[Round]], correction: SpeedCorrection) -> None:
        jobs = [case[0].case.job for case in cases]
        self.estimates: dict[str, list[Estimate | None]] = {}
        for name, measure in MEASURES.items():
            found: list[Estimate | None] = [None] * len(cases)
            for job in dict.fromkeys(jobs):
                places = [place for place, of_case in enumerate(jobs) if of_case == job]
                of_job = _estimates([cases[place] for place in places], measure, correction)
                for place, estimate in zip(places, of_job, strict=True):
                    found[place] = estimate
            self.estimates[name] = found
        rates = self.estimates["rate_per_s"]
        place_of = {id(one): place for place, case in enumerate(cases) for one in case}
        above = [next((one.ceiling for one in case if one.ceiling is not None), None) for case in cases]
        self._ceilings = [None if one is None else rates[place_of[id(one)]] for one in above]

    def of_case(self, place: int) -> dict[str, Estimate | None]:
        """Return all estimates of one case, and of its share of the ceiling: of all rounds of that, if it has any."""
        found = {name: of_all[place] for name, of_all in self.estimates.items()}
        rate, ceiling = found["rate_per_s"], self._ceilings[place]
        found["of_ceiling"] = ratio(rate, ceiling) if rate is not None and ceiling is not None else None
        return found

    def of(self, places: Sequence[int]) -> dict[str, list[Estimate | None]]:
        """Return the estimates of some of the cases."""
        return {name: [found[place] for place in places] for name, found in self.estimates.items()}


def _estimates(
    cases: Sequence[Sequence[Round]], measure: Measure, correction: SpeedCorrection
) -> list[Estimate | None]:
    if measure.disturbance is None:
        return estimates([_values(case, measure, correction) for case in cases])
    return weighted_estimates([_weighted_values(case, measure, measure.disturbance, correction) for case in cases])


def _weighted_values(
    case: Sequence[Round], measure: Measure, disturbance: Disturbance, correction: SpeedCorrection
) -> list[tuple[float, float]]:
    """Return the logarithm of each round that has a value, with the variance that its disturbances add."""
    values = [(one, None if one.record.failure else measure.of_round(one, correction)) for one in case]
    return [
        (math.log(value), disturbance(one, correction)) for one, value in values if isinstance(value, float) and value
    ]


def _values(case: Sequence[Round], measure: Measure, correction: SpeedCorrection) -> list[float | None]:
    found: list[float | None] = []
    for one in case:
        values = None if one.record.failure else measure.of_round(one, correction)
        found += values if isinstance(values, list) else [values]
    if measure.needs_every_round and None in found:
        return []
    return found if len(case) > 1 else found[:1]  # halves of a single round don't know how rounds differ
