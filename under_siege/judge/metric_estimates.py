"""Estimate the metrics of all cases, with the noise estimated from all cases of the same job."""

import itertools
import math
from collections.abc import Callable, Sequence
from statistics import fmean

from under_siege.judge.estimates import Estimate, estimates, ratio, weighted_estimates
from under_siege.judge.measured_case import MeasuredCase
from under_siege.judge.metric import Metric, MetricValue
from under_siege.judge.metrics import ESTIMATED, METRICS
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import SpeedCorrection

Case = Sequence[Round]
Estimates = dict[str, list[Estimate | None]]  # the estimates of all cases, by the key of the metric
Values = dict[str, MetricValue]  # the values of one case, by the key of the metric


def estimates_of(cases: Sequence[Case], correction: SpeedCorrection) -> Estimates:
    """Return the estimates of every metric."""
    return _by_job(cases, correction, _of_job)


def pooled_estimates(cases: Sequence[Case], correction: SpeedCorrection) -> Estimates:
    """Return estimates for marks: the variances of all metrics are pooled, as those of rates always are.

    Each value includes the tolerance of its metric.
    """
    return _by_job(cases, correction, _pooled_of_job)


def estimates_for_changes(cases: Sequence[Case], correction: SpeedCorrection) -> Estimates:
    """Return estimates for changes of a case, whose own noise counts more than that of others; with the tolerance."""
    return _by_job(cases, correction, _changing_of_job)


def _by_job(
    cases: Sequence[Case], correction: SpeedCorrection, estimate: Callable[..., list[Estimate | None]]
) -> Estimates:
    by_metric: Estimates = {metric.key: [None] * len(cases) for metric in ESTIMATED}
    for metric, indices in itertools.product(ESTIMATED, _jobs(cases)):
        of_job = estimate([cases[index] for index in indices], metric, correction)
        for index, of_case in zip(indices, of_job, strict=True):
            by_metric[metric.key][index] = of_case
    return by_metric


def _jobs(cases: Sequence[Case]) -> list[list[int]]:
    """Return the indices of the cases of each job."""
    jobs: dict[object, list[int]] = {}
    for index, case in enumerate(cases):
        jobs.setdefault(case[0].case.job, []).append(index)
    return list(jobs.values())


def shares_of_ceiling(cases: Sequence[Case], rates: Sequence[Estimate | None]) -> list[Estimate | None]:
    """Return the rate of each case divided by the rate of its ceiling, or None if either rate is unknown."""
    rate_of = {run: rate for case, rate in zip(cases, rates, strict=True) for run in case}
    ceilings = [next((rate_of[run.ceiling] for run in case if run.ceiling is not None), None) for case in cases]
    return [rate and ceiling and ratio(rate, ceiling) for rate, ceiling in zip(rates, ceilings, strict=True)]


def values_of(cases: Sequence[Case], measured: Estimates, correction: SpeedCorrection) -> list[Values]:
    """Return the metrics of each case, with their intervals."""
    found: list[Values] = [{} for _ in cases]
    for indices in _jobs(cases):
        of_job = [MeasuredCase(cases[index], correction) for index in indices]
        for metric in METRICS.values():
            by_case = measured.get(metric.key, [None] * len(cases))
            known = [by_case[index] for index in indices]
            values = [metric.measured(case, estimate) for case, estimate in zip(of_job, known, strict=True)]
            if any(value is not None and value.value is None for value in values):
                values = _with_lower_bounds(values, metric, of_job)
            for index, value in zip(indices, values, strict=True):
                if value is not None:
                    found[index][metric.key] = value
    return found


def _with_lower_bounds(
    values: Sequence[MetricValue | None], metric: Metric, cases: Sequence[MeasuredCase]
) -> list[MetricValue | None]:
    """Estimate lower bounds for the percentiles that were not reached."""
    at_least = metric.at_least
    assert at_least is not None
    bounds = estimates([[at_least(run) for run in case.rounds] for case in cases])
    edges = [bound.interval() if bound else None for bound in bounds]
    return [
        MetricValue(None, edge[0], math.inf) if value is not None and value.value is None and edge else value
        for value, edge in zip(values, edges, strict=True)
    ]


def _of_job(cases: Sequence[Case], metric: Metric, correction: SpeedCorrection) -> list[Estimate | None]:
    if metric.disturbance is not None:
        return _pooled_of_job(cases, metric, correction)
    samples = [[value for _, value in case] for case in _round_values(cases, metric, correction)]
    # With a single round, use only one of its halves, because halves don't show how rounds differ.
    return estimates([own if len(case) > 1 else own[:1] for case, own in zip(cases, samples, strict=True)])


def _pooled_of_job(cases: Sequence[Case], metric: Metric, correction: SpeedCorrection) -> list[Estimate | None]:
    added = [metric.disturbance, metric.single_round if max(map(len, cases), default=0) == 1 else None]
    variances = [variance_of for variance_of in added if variance_of]

    def disturbance(run: Round) -> float:
        return sum(variance_of(correction.rounds[run]) for variance_of in variances)

    logs = _logs(cases, metric, correction)
    return weighted_estimates([[(log, disturbance(run)) for run, log in case] for case in logs], metric.usual_deviation)


def _changing_of_job(cases: Sequence[Case], metric: Metric, correction: SpeedCorrection) -> list[Estimate | None]:
    if metric.disturbance is not None:
        return _pooled_of_job(cases, metric, correction)
    logs = [_means_of_rounds(case) for case in _logs(cases, metric, correction)]
    return estimates([[math.exp(log) for log in case] for case in logs])


def _logs(cases: Sequence[Case], metric: Metric, correction: SpeedCorrection) -> list[list[tuple[Round, float]]]:
    """Return the logarithms of each case's values, including the tolerance, with their rounds."""
    return [
        [(run, math.log(value + metric.tolerance)) for run, value in case if value]
        for case in _round_values(cases, metric, correction)
    ]


def _means_of_rounds(case: Sequence[tuple[Round, float]]) -> list[float]:
    """Return the mean for each round, because the values of a round share its noise."""
    by_round: dict[Round, list[float]] = {}
    for run, log in case:
        by_round.setdefault(run, []).append(log)
    return [fmean(logs) for logs in by_round.values()]


def _round_values(
    cases: Sequence[Case], metric: Metric, correction: SpeedCorrection
) -> list[list[tuple[Round, float | None]]]:
    """Return each case's values with their rounds, or no values if one is missing but needed."""
    of_round = metric.of_round
    assert of_round is not None
    values = [
        [
            (run, value)
            for run in case
            for value in ([None] if run.record.failure else of_round(correction.rounds[run], run))
        ]
        for case in cases
    ]
    if metric.is_latency:
        return [[] if None in [value for _, value in case] else case for case in values]
    return values
