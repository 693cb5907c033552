"""The CPU time of an answer that is spent on anything but the task, as an interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from under_siege.analysis.metric_value import MetricValue
from under_siege.analysis.report_data import Comparison
from under_siege.stats.estimates import Estimate, estimates
from under_siege.stats.regression import median

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
    """The difference; both of its errors are as independent as two measurements can be."""
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
