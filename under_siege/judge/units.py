"""Define the units of metrics: their names in requirements, and how tables, sentences and charts show values."""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from under_siege import formatting


class Unit(NamedTuple):
    """A unit of metrics."""

    factors: Mapping[str, float]  # its names in requirements, with the factor to the unit of the stored value
    text: Callable[[float], str]  # format for tables
    exact: Callable[[float], str]  # format for a value beside its limit, with enough digits to compare the two
    suffix: str = ""  # what sentences add to `text`
    chart_factor: float = 1.0  # from the unit of the stored value to that of a chart's axis


def _exact_seconds(value: float) -> str:
    significant = formatting.significant
    return f"{significant(1000 * value)} ms" if value < 0.9995 else f"{significant(value)} s"


def _exact_percent(value: float) -> str:
    """Format a percentage, rounded down, with enough decimal places to show its leading nines."""
    if value >= 100:
        return "100 %"
    digits = max(2, 1 - math.floor(math.log10(100 - value)))
    return f"{math.floor(value * 10**digits) / 10**digits:.{digits}f} %"


def exact_share(value: float) -> str:
    return f"{formatting.significant(100 * value)} %"


SHARES = {"%": 0.01, "": 1.0}
TIME = Unit(
    {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0},
    formatting.seconds,
    _exact_seconds,
    chart_factor=1000,
)
RATE = Unit(
    {"/s": 1.0, "/min": 1 / 60, "": 1.0},
    formatting.rate,
    lambda value: f"{formatting.significant(value)}/s",
    suffix="/s",
)
SHARE = Unit(SHARES, formatting.share, exact_share)
PERCENT = Unit({"%": 1.0, "": 100.0}, formatting.percent, _exact_percent)
SIZE = Unit(
    {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30},
    formatting.megabytes,
    lambda value: f"{formatting.significant(value / 1e6)} MB",
    chart_factor=1e-6,
)
COUNT = Unit({"": 1.0}, "{:,.0f}".format, "{:,g}".format)
