"""An amount: a figure with its confidence interval, or the reason why it can't be trusted."""

from __future__ import annotations

from dataclasses import dataclass

from common.report.figures.estimates import Estimate


@dataclass(frozen=True, slots=True)
class Amount:
    """A figure with its interval. The interval of a count is the count."""

    text: str
    value: float | None = None  # None: unknown, or beyond what was measured
    low: float | None = None
    high: float | None = None
    estimate: Estimate | None = None  # compared round by round with another figure of the same kind
    doubt: str = ""  # why it can't be trusted


def counted(value: float, text: str = "") -> Amount:
    """Return an amount without noise."""
    return Amount(text or f"{value:g}", value, value, value)
