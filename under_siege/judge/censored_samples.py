"""Estimate percentiles of waiting times, some of which ended without a correct response."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from under_siege.judge.steady_rate import Flags, Floats


@dataclass(frozen=True)
class CensoredSamples:
    """Waiting times in seconds; `answered` is false for a wait without a correct response (right-censored)."""

    waited_s: Floats
    answered: Flags

    def percentile(self, percent: float) -> float | None:
        """Return the Kaplan-Meier estimate of a percentile, or None if too few waits ended with a correct response."""
        times, share = self._distribution
        reached = int(share.searchsorted(percent / 100 - 1e-9))
        return float(times[reached]) if reached < len(times) else None

    def longest_s(self) -> float | None:
        """Return the longest wait, whether or not it ended with a response, or None if there are no waits."""
        return float(self.waited_s.max()) if len(self.waited_s) else None

    @cached_property
    def _distribution(self) -> tuple[Floats, Floats]:
        """Return the sorted waiting times, and the estimated share of requests answered within each of these times."""
        order = np.lexsort((~self.answered, self.waited_s))
        at_risk = np.arange(len(order), 0, -1)
        share = 1 - np.cumprod(1 - self.answered[order] / at_risk)
        return self.waited_s[order], np.asarray(share, dtype=np.float64)


def together(several: Sequence[CensoredSamples]) -> CensoredSamples:
    """Combine several sets of samples into one."""
    waited_s = np.concatenate([*(waits.waited_s for waits in several), np.empty(0)])
    answered = [*(waits.answered for waits in several), np.empty(0, dtype=bool)]
    return CensoredSamples(waited_s, np.concatenate(answered))
