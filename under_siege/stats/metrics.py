"""The metrics that cases are compared by: the value of a round, and the estimate from all rounds."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from under_siege.stats.estimates import Estimate, estimates, ratio, weighted_estimates
from under_siege.stats.rounds_data import Round
from under_siege.stats.speed_correction import SpeedCorrection

Estimates = dict[str, list[Estimate | None]]  # by metric: the estimate of each case


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric, at the usual speed of the machine where that is known; most have one value for each round."""

    of_round: Callable[[Round, SpeedCorrection], list[float | None]]
    more_is_better: bool = False
    needs_every_round: bool = False  # where a round without a value means that it is large
    # The variance that a known disturbance adds to the logarithm of a round's value. Where there is one, noise comes
    # from the machine, and its variance is pooled over all cases.
    disturbance: Callable[[Round, SpeedCorrection], float] | None = None


def _response(percent: float) -> Measure:
    return Measure(
        lambda run, correction: [correction.response_s(run, run.response_s(percent))],
        needs_every_round=True,
    )


def _ping(percent: float) -> Measure:
    """Use each half of a siege as a sample: there are many pings, but only a few rounds."""
    return Measure(lambda run, _: [half.percentile(percent) for half in run.halves_of_pings], needs_every_round=True)


MEASURES = {
    "rate_per_s": Measure(
        lambda run, correction: [correction.rate(run)],
        more_is_better=True,
        disturbance=lambda run, correction: correction.rate_variance(run),
    ),
    "response_p50_s": _response(50),
    "response_p95_s": _response(95),
    "response_p99_s": _response(99),
    "ping_p50_s": _ping(50),
    "ping_p95_s": _ping(95),
    "ping_p99_s": _ping(99),
    "cpu_s_per_transaction": Measure(
        lambda run, correction: [correction.cpu_s(run)],
        disturbance=lambda run, correction: correction.cpu_variance(run),
    ),
    "memory_bytes": Measure(lambda run, _: [run.memory_bytes()]),
}

SPEED_CORRECTED = tuple(name for name, measure in MEASURES.items() if measure.disturbance)


def estimates_of(cases: Sequence[Sequence[Round]], correction: SpeedCorrection) -> Estimates:
    """Return the estimates of every metric; cases of the same job help to estimate each other's noise."""
    jobs: dict[object, list[int]] = {}
    for index, case in enumerate(cases):
        jobs.setdefault(case[0].case.job, []).append(index)
    by_metric: Estimates = {}
    for name, measure in MEASURES.items():
        by_metric[name] = [None] * len(cases)
        for indices in jobs.values():
            of_job = _of_job([cases[index] for index in indices], measure, correction)
            for index, estimate in zip(indices, of_job, strict=True):
                by_metric[name][index] = estimate
    return by_metric


def shares_of_ceiling(cases: Sequence[Sequence[Round]], rates: Sequence[Estimate | None]) -> list[Estimate | None]:
    """Return the rate of each case as a multiple of that of all rounds of its ceiling, if both are known."""
    rate_of = {id(run): rate for case, rate in zip(cases, rates, strict=True) for run in case}
    shares: list[Estimate | None] = []
    for case, rate in zip(cases, rates, strict=True):
        ceiling = next((rate_of[id(run.ceiling)] for run in case if run.ceiling is not None), None)
        shares.append(ratio(rate, ceiling) if rate is not None and ceiling is not None else None)
    return shares


def _of_job(cases: Sequence[Sequence[Round]], measure: Measure, correction: SpeedCorrection) -> list[Estimate | None]:
    pairs = [_values(case, measure, correction) for case in cases]
    if (added := measure.disturbance) is not None:
        return weighted_estimates(
            [[(math.log(value), added(run, correction)) for run, value in case if value] for case in pairs]
        )
    values = [[value for _, value in case] for case in pairs]
    if measure.needs_every_round:
        values = [[] if None in of_case else of_case for of_case in values]
    # Halves of a single round don't know how rounds differ.
    return estimates([own if len(case) > 1 else own[:1] for case, own in zip(cases, values, strict=True)])


def _values(
    case: Sequence[Round], measure: Measure, correction: SpeedCorrection
) -> Iterator[tuple[Round, float | None]]:
    for run in case:
        for value in [None] if run.record.failure else measure.of_round(run, correction):
            yield run, value
