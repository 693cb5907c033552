"""What a load tool tells at its end only: the bursts of a round, as columns, and what follows from them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from under_siege.model.record import Record
from under_siege.stats.rate import SteadyRate
from under_siege.stats.regression import median
from under_siege.stats.request_spans import Floats, Spans


class Totals:
    """The bursts of one record."""

    def __init__(self, record: Record) -> None:
        columns = record.bursts
        self.columns = columns
        self.began_s: Floats = np.asarray(columns.began_s, dtype=float)
        self.took_s: Floats = np.asarray(columns.took_s, dtype=float)
        self.right = np.asarray(columns.right, dtype=int)

    def __bool__(self) -> bool:
        return len(self.took_s) > 0

    @property
    def completed(self) -> int:
        """Answers with a good status."""
        return int(self.right.sum())

    @property
    def attempts(self) -> int:
        """Requests that ended in one way or another."""
        return self.completed + sum(self.columns.wrong_status) + sum(self.columns.unanswered)

    def bytes_of_answers(self) -> tuple[int, int] | None:
        """How many bytes so many answers had, where the tool tells that and no status was a wrong one."""
        columns = zip(self.columns.body_bytes, self.columns.right, self.columns.wrong_status, strict=True)
        known = [(size, right) for size, right, wrong in columns if size is not None and not wrong]
        return (sum(size for size, _ in known), sum(right for _, right in known)) if known else None

    @cached_property
    def from_s(self) -> float:
        """When the first of them began."""
        return max(0.0, float(self.began_s.min()))

    def rate(self, besides: Spans) -> SteadyRate:
        """Answers per second of the time that the bursts took; `besides` are requests of others meanwhile."""
        if not self.completed:
            return SteadyRate(None, 0.0, too_short=f"no answer came in {self.took_s.sum():.1f} s")
        answers = self.completed + sum(self._meanwhile(besides))
        return SteadyRate(float(answers / self.took_s.sum()), self.from_s)

    def batches(self, besides: Spans) -> list[tuple[float, float, float]]:
        """From, to, and the rate of each burst that has one."""
        others = self._meanwhile(besides)
        bursts = zip(self.began_s.tolist(), self.took_s.tolist(), self.right.tolist(), others, strict=True)
        return [(began, began + took, (right + more) / took) for began, took, right, more in bursts if right]

    def _meanwhile(self, besides: Spans) -> list[int]:
        """How many right answers others got in each burst."""
        ended_s = besides.ended_s[besides.good]
        ends_s = self.began_s + self.took_s
        return [
            int(((ended_s >= began) & (ended_s < end)).sum())
            for began, end in zip(self.began_s.tolist(), ends_s.tolist(), strict=True)
        ]

    def percentile(self, percent: float) -> float | None:
        """The median over the bursts; None where the tool tells no such one."""
        columns = {50: self.columns.p50_s, 95: self.columns.p95_s, 99: self.columns.p99_s}
        known = [value for value in columns[int(percent)] if value is not None]
        return median(known) if known else None

    @property
    def longest_s(self) -> float:
        """Of all answers, as far as that is told; 0 where it is not."""
        return max((value for value in self.columns.max_s if value is not None), default=0.0)

    def awake(self, cpus: int) -> float | None:
        """The share of the time that the tool was awake, of what it could be; None where that isn't known.

        Where the system does not tell it, its CPU time stands for it.
        """
        known = [value for value in self.columns.tool_awake if value is not None]
        if not known:
            known = [
                used_s / took_s for used_s, took_s in zip(self.columns.tool_cpu_s, self.took_s.tolist(), strict=True)
            ]
        return median(known) / cpus if any(known) else None
