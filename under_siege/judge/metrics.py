"""Define the metrics for comparing cases, compute them for each round, and estimate them from all rounds."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from under_siege.judge.estimates import USUAL_DEVIATION, Estimate, estimates, ratio, weighted_estimates
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import SpeedCorrection

PING_TOLERANCE_S = 0.020
Estimates = dict[str, list[Estimate | None]]  # the estimates of all cases, by metric


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric, adjusted to the usual speed of the machine if possible. Most metrics have one value per round."""

    of_round: Callable[[SpeedCorrection, Round], list[float | None]]
    more_is_better: bool = False
    needs_every_round: bool = False  # whether a missing value prevents an estimate, because it stands for a long wait
    # Returns the variance that known disturbances add to the logarithm of a round's value. If this function is set,
    # noise is assumed to come from the machine, and its variance is pooled over all cases.
    disturbance: Callable[[SpeedCorrection, Round], float] | None = None
    # Returns the variance to add if no case has a second round, which would show the noise between rounds.
    single_round: Callable[[SpeedCorrection, Round], float] | None = None
    # Added to all values when cases are compared, because users don't notice smaller differences, and because the noise
    # of pings is a delay rather than a factor.
    tolerance: float = 0.0
    usual_deviation: float = USUAL_DEVIATION  # standard deviation of its logarithm between rounds, as in `pooled`


def _response(percent: float) -> Measure:
    return Measure(
        lambda correction, run: [correction.response_s(run, run.response_s(percent))], needs_every_round=True
    )


def _ping(percent: float) -> Measure:
    """Return a metric with one value for each half of a siege, because there are many pings but few rounds."""
    return Measure(
        lambda _, run: [half.percentile(percent) for half in run.halves_of_pings],
        needs_every_round=True,
        tolerance=PING_TOLERANCE_S,
        usual_deviation=0.25,  # of the logarithm of 20 ms and the latency, in recorded runs
    )


MEASURES = {
    "rate_per_s": Measure(
        lambda correction, run: [correction.rate(run)],
        more_is_better=True,
        disturbance=SpeedCorrection.rate_variance,
        single_round=SpeedCorrection.single_round_variance,
    ),
    "response_p50_s": _response(50),
    "response_p95_s": _response(95),
    "response_p99_s": _response(99),
    "ping_p50_s": _ping(50),
    "ping_p95_s": _ping(95),
    "ping_p99_s": _ping(99),
    "cpu_s_per_transaction": Measure(
        lambda correction, run: [correction.cpu_s(run)], disturbance=SpeedCorrection.cpu_variance
    ),
    "memory_bytes": Measure(lambda _, run: [run.memory_bytes()]),
}
SPEED_CORRECTED = tuple(name for name, measure in MEASURES.items() if measure.disturbance)


def estimates_of(cases: Sequence[Sequence[Round]], correction: SpeedCorrection) -> Estimates:
    """Return the estimates of every metric, with the noise estimated from all cases of the same job."""
    return _by_job(cases, correction, _of_job)


def pooled_estimates(cases: Sequence[Sequence[Round]], correction: SpeedCorrection) -> Estimates:
    """Return estimates for marks: the variances of all metrics are pooled, as those of rates always are.

    Each value includes the tolerance of its metric.
    """
    return _by_job(cases, correction, _pooled_of_job)


def estimates_for_changes(cases: Sequence[Sequence[Round]], correction: SpeedCorrection) -> Estimates:
    """Return estimates for changes of a case, whose own noise counts more than that of others; with the tolerance."""
    return _by_job(cases, correction, _changing_of_job)


def _by_job(
    cases: Sequence[Sequence[Round]], correction: SpeedCorrection, estimate: Callable[..., list[Estimate | None]]
) -> Estimates:
    jobs: dict[object, list[int]] = {}
    for index, case in enumerate(cases):
        jobs.setdefault(case[0].case.job, []).append(index)
    by_metric: Estimates = {name: [None] * len(cases) for name in MEASURES}
    for (name, measure), indices in itertools.product(MEASURES.items(), jobs.values()):
        of_job = estimate([cases[index] for index in indices], measure, correction)
        for index, of_case in zip(indices, of_job, strict=True):
            by_metric[name][index] = of_case
    return by_metric


def shares_of_ceiling(cases: Sequence[Sequence[Round]], rates: Sequence[Estimate | None]) -> list[Estimate | None]:
    """Return the rate of each case divided by the rate of its ceiling, or None if either rate is unknown."""
    rate_of = {run: rate for case, rate in zip(cases, rates, strict=True) for run in case}
    ceilings = [next((rate_of[run.ceiling] for run in case if run.ceiling is not None), None) for case in cases]
    return [rate and ceiling and ratio(rate, ceiling) for rate, ceiling in zip(rates, ceilings, strict=True)]


def _of_job(cases: Sequence[Sequence[Round]], measure: Measure, correction: SpeedCorrection) -> list[Estimate | None]:
    if measure.disturbance is not None:
        return _pooled_of_job(cases, measure, correction)
    samples = [[value for _, value in case] for case in _values(cases, measure, correction)]
    # With a single round, use only one of its halves, because halves don't show how rounds differ.
    return estimates([own if len(case) > 1 else own[:1] for case, own in zip(cases, samples, strict=True)])


def _pooled_of_job(
    cases: Sequence[Sequence[Round]], measure: Measure, correction: SpeedCorrection
) -> list[Estimate | None]:
    added = [measure.disturbance, measure.single_round if max(map(len, cases), default=0) == 1 else None]
    variances = [variance_of for variance_of in added if variance_of]

    def disturbance(run: Round) -> float:
        return sum(variance_of(correction, run) for variance_of in variances)

    logs = _logs(cases, measure, correction)
    return weighted_estimates(
        [[(log, disturbance(run)) for run, log in case] for case in logs], measure.usual_deviation
    )


def _changing_of_job(
    cases: Sequence[Sequence[Round]], measure: Measure, correction: SpeedCorrection
) -> list[Estimate | None]:
    if measure.disturbance is not None:
        return _pooled_of_job(cases, measure, correction)
    logs = [_means_of_rounds(case) for case in _logs(cases, measure, correction)]
    return estimates([[math.exp(log) for log in case] for case in logs])


def _logs(
    cases: Sequence[Sequence[Round]], measure: Measure, correction: SpeedCorrection
) -> list[list[tuple[Round, float]]]:
    """Return the logarithms of each case's values, including the tolerance, with their rounds."""
    return [
        [(run, math.log(value + measure.tolerance)) for run, value in case if value]
        for case in _values(cases, measure, correction)
    ]


def _means_of_rounds(case: Sequence[tuple[Round, float]]) -> list[float]:
    """Return the mean for each round, because the values of a round share its noise."""
    by_round: dict[Round, list[float]] = {}
    for run, log in case:
        by_round.setdefault(run, []).append(log)
    return [fmean(logs) for logs in by_round.values()]


def _values(
    cases: Sequence[Sequence[Round]], measure: Measure, correction: SpeedCorrection
) -> list[list[tuple[Round, float | None]]]:
    """Return each case's values with their rounds, or no values if one is missing but needed."""
    values = [
        [
            (run, value)
            for run in case
            for value in ([None] if run.record.failure else measure.of_round(correction, run))
        ]
        for case in cases
    ]
    if measure.needs_every_round:
        return [[] if None in [value for _, value in case] else case for case in values]
    return values
