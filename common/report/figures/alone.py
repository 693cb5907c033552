"""What the task takes with nothing beside it, as it was measured around the cases of a comparison."""

from collections.abc import Iterator

import numpy as np

from common.model.record import Record
from common.report.judging.summary import Comparison


def alone_wall_s(comparison: Comparison, task: str, python: str | None = None) -> float | None:
    """The median of all runs, under all Pythons or under one."""
    records = [record for record in _records(comparison, task) if python in (None, record.python)]
    return _median([wall_s for record in records for wall_s in record.alone_wall_s])


def alone_cpu_s(comparison: Comparison, task: str) -> float | None:
    """The CPU time of a run, the median of all."""
    return _median([cpu_s for record in _records(comparison, task) for cpu_s in record.alone_cpu_s])


def _records(comparison: Comparison, task: str) -> Iterator[Record]:
    yield from (one.record for one in comparison.every_round() if one.record.task == task)


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None
