"""What the task takes with nothing beside it, as it was measured around the cases."""

from collections.abc import Iterable

import numpy as np

from common.report.figures.rounds import Round


def alone_wall_s(rounds: Iterable[Round]) -> float | None:
    """The median of all runs that were made around these rounds."""
    return _median([wall_s for one in rounds for wall_s in one.record.alone_wall_s])


def alone_cpu_s(rounds: Iterable[Round]) -> float | None:
    """The CPU time of a run, the median of all."""
    return _median([cpu_s for one in rounds for cpu_s in one.record.alone_cpu_s])


def _median(values: list[float]) -> float | None:
    return float(np.median(values)) if values else None
