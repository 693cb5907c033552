"""Waiting times some of which are known only in part, because the siege ended before the answer came.

The product-limit estimate (Kaplan and Meier, JASA 53, 1958): what is still waiting counts among those at risk for as
long as it was seen to wait, and is not taken for an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class CensoredSamples:
    """Waiting times in seconds; `answered` is false where the wait had not ended when it was last seen."""

    waited_s: Floats
    answered: Flags

    def percentile(self, percent: float) -> float | None:
        """The shortest wait that so many per cent don't exceed; None if it lies beyond what was seen."""
        times, share = self._distribution
        reached = int(share.searchsorted(percent / 100 - 1e-9))
        return float(times[reached]) if reached < len(times) else None

    def seen_up_to_s(self) -> float:
        """How far the distribution is known."""
        return float(self.waited_s.max()) if len(self.waited_s) else 0.0

    @cached_property
    def _distribution(self) -> tuple[Floats, Floats]:
        """The times in order, and the share of all waits that had ended by then; of those at one time answers first."""
        order = np.lexsort((~self.answered, self.waited_s))
        at_risk = np.arange(len(order), 0, -1)
        share = 1 - np.cumprod(1 - self.answered[order] / at_risk)
        return self.waited_s[order], np.asarray(share, dtype=np.float64)


def together(several: Sequence[CensoredSamples]) -> CensoredSamples:
    """All in one."""
    return CensoredSamples(
        np.concatenate([waits.waited_s for waits in several] or [np.empty(0)]),
        np.concatenate([waits.answered for waits in several] or [np.empty(0, dtype=bool)]),
    )
