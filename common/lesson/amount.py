"""An amount: a figure with the interval that it lies in, and what speaks against it."""

from __future__ import annotations

from dataclasses import dataclass

from common.report.figures.estimates import Estimate

AS_IT_IS = (1.0, 1.0)


@dataclass(frozen=True, slots=True)
class Amount:
    """A figure with the interval that it lies in; what was counted is as it is."""

    text: str
    value: float | None = None  # None: not known, or beyond what was seen
    low: float | None = None
    high: float | None = None
    estimate: Estimate | None = None  # where two of the kind can be compared as rounds are
    doubt: str = ""  # why it can't be trusted
    noise: str = ""  # what else the machine did; then `leeway` says how far that may have carried it
    leeway: tuple[float, float] = AS_IT_IS  # from where to where it may be on a quiet machine, as multiples of it


def counted(value: float, text: str = "") -> Amount:
    """What knows no noise."""
    return Amount(text or f"{value:g}", value, value, value)
