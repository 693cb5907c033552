"""What the task takes with nothing beside it, as the bare cases of a comparison measured it."""

from collections.abc import Iterator

from common.record import Record
from common.report.summary import Comparison


def alone_wall_s(comparison: Comparison, task: str, python: str | None = None) -> float | None:
    """The fastest single run, of all Pythons or of one."""
    return min(
        (
            wall_s
            for record in _bare(comparison, task)
            if python in (None, record.python)
            for wall_s in record.alone_wall_s
        ),
        default=None,
    )


def alone_cpu_s(comparison: Comparison, task: str) -> float | None:
    """The CPU time of the run that needed the least."""
    return min((cpu_s for record in _bare(comparison, task) for cpu_s in record.alone_cpu_s), default=None)


def _bare(comparison: Comparison, task: str) -> Iterator[Record]:
    for case in comparison.rounds:
        for one in case:
            if one.ceiling is not None and one.record.task == task:
                yield one.ceiling.record
