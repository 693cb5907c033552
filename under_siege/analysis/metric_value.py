"""Look up the value of a metric of a case and its interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from under_siege.analysis.report_data import Comparison
from under_siege.analysis.summary import Interval
from under_siege.stats.estimates import Estimate, estimates, share_between
from under_siege.stats.rounds_data import Round

CPU_TIME = "cpu_s_per_transaction"


@dataclass(frozen=True, slots=True)
class MetricValue:
    """A value as measured, and its 95 % confidence interval if there is one."""

    value: float | None  # None: not reached
    low: float | None = None
    high: float | None = None  # infinite if unbounded

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)


def known(comparison: Comparison, place: int, figure: str) -> MetricValue | None:
    """Return the value of a metric of one of the cases; None if it has no such metric.

    Rates and shares of the ceiling are those at the usual speed of the machine, as their intervals are.
    """
    case, rounds = comparison.cases[place], comparison.rounds[place]
    if figure in ("rate_per_s", "of_ceiling"):
        mean: Interval | None = getattr(case, figure)
        at_usual_speed = case.rate_at_usual_speed_per_s if figure == "rate_per_s" else None
        return None if mean is None else MetricValue(at_usual_speed or mean.mean, mean.low, mean.high)
    if figure == "availability_pct":
        if case.availability_pct is None:
            return None
        low, high = share_between([run.completed for run in rounds], [run.attempts for run in rounds])
        return MetricValue(case.availability_pct, 100 * low, 100 * high)
    kind, _, percentile = figure.removesuffix("_s").partition("_")
    if kind in ("response", "ping"):
        return _latency(comparison, place, kind, percentile)
    value, estimate = getattr(case, figure), comparison.measured[figure][place]
    if value is None or estimate is None:
        return None
    return MetricValue(value, *(estimate.interval(around=value) or ()))


def _latency(comparison: Comparison, place: int, kind: str, percentile: str) -> MetricValue | None:
    case = comparison.cases[place]
    latency = case.response_s if kind == "response" else case.ping_s
    if latency is None:
        return None
    if percentile == "max":  # the longest measured; the next one may take longer
        return MetricValue(latency.max, latency.max, math.inf)
    value: float | None = getattr(latency, percentile)
    if value is not None:
        return MetricValue(value, getattr(latency, f"{percentile}_low"), getattr(latency, f"{percentile}_high"))
    # In some rounds the percentile was not reached, so the estimate is a lower bound.
    percent = float(percentile.removeprefix("p"))
    beside = [index for index, other in enumerate(comparison.cases) if other.case.job == case.case.job]
    bounds = estimates([[_at_least_s(run, kind, percent) for run in comparison.rounds[index]] for index in beside])
    bound = bounds[beside.index(place)]
    edges = bound.interval() if bound else None
    return MetricValue(None, edges[0], math.inf) if edges else MetricValue(None)


def _at_least_s(run: Round, kind: str, percent: float) -> float | None:
    """Return the percentile, or if that was not reached the longest wait; None if a tool reports neither."""
    if kind == "response" and run.totals:
        return run.totals.percentile(percent)
    waits = run.pings if kind == "ping" else run.responses
    return waits.percentile(percent) or waits.seen_up_to_s()


def task_cpu_s(comparison: Comparison, work: object) -> Estimate | None:
    """Return the CPU time of the task alone, at the usual speed of the machine; None if it was not run alone."""
    values: list[float | None] = []
    for run in comparison.rounds_of(work):
        if run.record.alone_cpu_s:
            speed = comparison.correction.speed(run) or 1.0
            times = speed ** comparison.correction.cpu_coefficient(run)
            values.append(median(run.record.alone_cpu_s) * times)
    return estimates([values])[0]


def spent_beside(comparison: Comparison, places: Sequence[int], task: Estimate | None) -> list[MetricValue]:
    """Return the CPU time per answer of each of these cases, without that of the task; all of it if that is None."""
    return [_difference(comparison.measured[CPU_TIME][place], task) for place in places]


def _difference(total: Estimate | None, task: Estimate | None) -> MetricValue:
    """Return the difference; both of its errors are as independent as two measurements can be."""
    if total is None:
        return MetricValue(None)
    edges = total.interval()
    if task is None:
        return MetricValue(total.mean, *(edges or ()))
    value, of_task = total.mean - task.mean, task.interval()
    if edges is None or of_task is None:
        return MetricValue(value)
    down = np.hypot(total.mean - edges[0], of_task[1] - task.mean)
    up = np.hypot(edges[1] - total.mean, task.mean - of_task[0])
    return MetricValue(value, float(value - down), float(value + up))
