"""Compute the figures of a load tool that reports totals instead of single responses."""

from statistics import median

import numpy as np

from under_siege.judge.estimators import Floats, Spans, SteadyRate, median_of
from under_siege.record.record import Record


class ToolTotals:
    """The bursts of a load tool that reports totals instead of single responses."""

    def __init__(self, record: Record) -> None:
        self.columns = record.bursts
        self.began_s: Floats = np.asarray(self.columns.began_s, dtype=float)
        self.took_s: Floats = np.asarray(self.columns.took_s, dtype=float)
        self.completed = sum(self.columns.right)  # responses with a good status
        self.attempts = self.completed + sum(self.columns.wrong_status) + sum(self.columns.unanswered)

    def __bool__(self) -> bool:
        return len(self.took_s) > 0

    def bytes_of_answers(self) -> tuple[int, int]:
        """Return the numbers of bytes and responses in all bursts with a known size and without a wrong status."""
        columns = zip(self.columns.body_bytes, self.columns.right, self.columns.wrong_status, strict=True)
        known = [(size, right) for size, right, wrong in columns if size is not None and not wrong]
        return sum(size for size, _ in known), sum(right for _, right in known)

    def rate(self, besides: Spans) -> SteadyRate:
        """Return the rate of correct responses during the bursts, including those to the requests in `besides`."""
        if not self.completed:
            return SteadyRate(None, 0.0, too_short=f"no correct response arrived within {self.took_s.sum():.1f} s")
        others_s, ends_s = besides.ended_s[besides.good], self.began_s + self.took_s
        during = (others_s >= self.began_s[:, np.newaxis]) & (others_s < ends_s[:, np.newaxis])
        from_s = max(0.0, float(self.began_s.min()))
        return SteadyRate(float((self.completed + int(during.sum())) / self.took_s.sum()), from_s)

    def percentile(self, percent: float) -> float | None:
        """Return the median of a percentile over the bursts, or None if the tool does not report this percentile."""
        columns = {50: self.columns.p50_s, 95: self.columns.p95_s, 99: self.columns.p99_s}
        return median_of(columns.get(int(percent), []))

    @property
    def longest_s(self) -> float:
        """Return the longest response time, or 0 if the tool does not report it."""
        return max((value for value in self.columns.max_s if value is not None), default=0.0)

    def awake(self, cpus: int) -> float | None:
        """Return the share of the CPUs that the tool used or waited for, or None if this share is unknown.

        If only the CPU time of the tool is known, return the share that the tool used.
        """
        known = [value for value in self.columns.tool_awake if value is not None]
        if not known:
            times = zip(self.columns.tool_cpu_s, self.took_s.tolist(), strict=True)
            known = [used_s / took_s for used_s, took_s in times]
        return median(known) / cpus if any(known) else None
