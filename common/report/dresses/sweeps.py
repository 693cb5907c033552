"""Sweeps as a part of JSON."""

from typing import Any

from common.report.figures.scaling import Scaling
from common.report.judging.comparison import Comparison
from common.report.judging.sweep import sweeps


def sweeps_as_data(comparison: Comparison) -> list[dict[str, Any]]:
    """An object for each server along each axis of numbers; null is what can't be told.

    `knee` is the first number that none beyond it does more than, `lost` how much less the last one does, as a
    fraction; `scaling` the Universal Scalability Law, of five points or more.
    """
    return [
        {
            "along": sweep.along,
            "server": line.case.server,
            "values": dict(line.case.without([sweep.along]).values),
            "numbers": line.numbers,
            "rates_per_s": [one.mean for one in line.rates],
            "knee": None if line.knee is None else line.numbers[line.knee],
            "lost": line.lost,
            "scaling": line.scaling and _law(line.scaling),
        }
        for sweep in sweeps(comparison)
        for line in sweep.lines
    ]


def _law(law: Scaling) -> dict[str, Any]:
    parts = {name: getattr(law, name)._asdict() for name in ("alone", "contention", "coherency")}
    return {**parts, "fits": law.fits, "misfit": law.misfit, "peak": law.peak if law.fits else None}
