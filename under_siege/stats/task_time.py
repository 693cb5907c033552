"""What the task takes with nothing beside it, as it was measured around the cases."""

from collections.abc import Iterable

from under_siege.stats.regression import median
from under_siege.stats.rounds_data import Round


def alone_wall_s(rounds: Iterable[Round]) -> float | None:
    """The median of all runs that were made around these rounds.

    Where there is no task that could be performed without a server: the median of what the first answers took.
    """
    known = list(rounds)
    runs = [wall_s for one in known for wall_s in one.record.alone_wall_s]
    firsts = [one.record.idle_answer_s for one in known if not one.record.has_task and not one.record.is_ceiling]
    return _median(runs or [first_s for first_s in firsts if first_s is not None])


def alone_cpu_s(rounds: Iterable[Round]) -> float | None:
    """The CPU time of a run, the median of all."""
    return _median([cpu_s for one in rounds for cpu_s in one.record.alone_cpu_s])


def _median(values: list[float]) -> float | None:
    return median(values) if values else None
