"""Look up the value of a metric of a case and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from under_siege.analysis.report_data import Comparison
from under_siege.analysis.summary import Interval, Summary
from under_siege.stats.estimates import Estimate, estimates, share_between
from under_siege.stats.rounds_data import Round


@dataclass(frozen=True, slots=True)
class MetricValue:
    """The value as it was measured, and its 95 % confidence interval; neither where one round has none."""

    value: float | None  # None: beyond what was seen
    low: float | None = None
    high: float | None = None  # infinite where nothing says how far it may be

    @property
    def interval(self) -> tuple[float, float] | None:
        """From where to where it may be, if that is known."""
        return None if self.low is None or self.high is None else (self.low, self.high)


def known(comparison: Comparison, place: int, figure: str) -> MetricValue | None:
    """Return what is known of a figure of one of the cases; None where it has no such figure.

    Rates and shares of the ceiling are those at the usual speed of the machine, as their intervals are.
    """
    case, rounds = comparison.cases[place], comparison.rounds[place]
    if figure == "rate_per_s":
        return _mean(case.rate_per_s, case.rate_at_usual_speed_per_s)
    if figure == "of_ceiling":
        return _mean(case.of_ceiling, None)
    if figure == "availability_pct":
        return _availability(case, rounds)
    what, _, percentile = figure.removesuffix("_s").partition("_")
    if what in ("response", "ping"):
        return _wait(comparison, place, what, percentile)
    return _estimated(getattr(case, figure), comparison.measured[figure][place])


def _mean(interval: Interval | None, at_usual_speed: float | None) -> MetricValue | None:
    return None if interval is None else MetricValue(at_usual_speed or interval.mean, interval.low, interval.high)


def _estimated(value: float | None, estimate: Estimate | None) -> MetricValue | None:
    if value is None or estimate is None:
        return None
    return MetricValue(value, *(estimate.interval(around=value) or ()))


def _availability(case: Summary, rounds: Sequence[Round]) -> MetricValue | None:
    """Requests that are counted have an interval after one round already."""
    if case.availability_pct is None:
        return None
    low, high = share_between([one.completed for one in rounds], [one.attempts for one in rounds])
    return MetricValue(case.availability_pct, 100 * low, 100 * high)


def _wait(comparison: Comparison, place: int, what: str, percentile: str) -> MetricValue | None:
    case = comparison.cases[place]
    latency = case.response_s if what == "response" else case.ping_s
    if latency is None:
        return None
    if percentile == "max":  # of what was seen; the next one may take longer
        return MetricValue(latency.max, latency.max, math.inf)
    value: float | None = getattr(latency, percentile)
    if value is not None:
        return MetricValue(value, getattr(latency, f"{percentile}_low"), getattr(latency, f"{percentile}_high"))
    low = _at_least(comparison, place, what, float(percentile.removeprefix("p")))
    return MetricValue(None, low, None if low is None else math.inf)


def _at_least(comparison: Comparison, place: int, what: str, percent: float) -> float | None:
    """Return the lower end of the interval of a percentile that is in some rounds longer than all that was seen."""
    job = comparison.cases[place].case.job
    beside = [number for number, one in enumerate(comparison.cases) if one.case.job == job]
    found = estimates([[_seen(one, what, percent) for one in comparison.rounds[number]] for number in beside])
    estimate = found[beside.index(place)]
    edges = estimate.interval() if estimate else None
    return edges and edges[0]


def _seen(one: Round, what: str, percent: float) -> float | None:
    """The percentile, or if that was not reached how long the longest had waited; None where a tool tells neither."""
    if what == "response" and one.totals:
        return one.totals.percentile(percent)
    waits = one.pings if what == "ping" else one.responses
    return waits.percentile(percent) or waits.seen_up_to_s()


FIGURE = "cpu_s_per_transaction"


def task_cpu_s(comparison: Comparison, work: object) -> Estimate | None:
    """What the task takes with nothing beside it, at the usual speed of the machine; None where nobody performed it."""
    values: list[float | None] = []
    for one in comparison.rounds_of(work):
        if one.record.alone_cpu_s:
            speed = comparison.correction.speed(one) or 1.0
            times = speed ** comparison.correction.cpu_coefficient(one)
            values.append(median(one.record.alone_cpu_s) * times)
    return estimates([values])[0]


def spent_beside(comparison: Comparison, places: Sequence[int], task: Estimate | None) -> list[MetricValue]:
    """CPU seconds for each answer of each of these cases, without those of the task; all of them if that is None."""
    return [_less(comparison.measured[FIGURE][place], task) for place in places]


def _less(one: Estimate | None, task: Estimate | None) -> MetricValue:
    """Return the difference; both of its errors are as independent as two measurements can be."""
    if one is None:
        return MetricValue(None)
    edges = one.interval()
    if task is None:
        return MetricValue(one.mean, *(edges or ()))
    value, of_task = one.mean - task.mean, task.interval()
    if edges is None or of_task is None:
        return MetricValue(value)
    down = np.hypot(one.mean - edges[0], of_task[1] - task.mean)
    up = np.hypot(edges[1] - one.mean, task.mean - of_task[0])
    return MetricValue(value, float(value - down), float(value + up))
