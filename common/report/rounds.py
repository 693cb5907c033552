"""What one record says, in the terms of the report, beside the bare case of the same round."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from common.record import BARE, Record
from common.report.rate import SteadyRate, rate_between, steady_rate
from common.report.spans import SIEGE_STEP_S, Flags, Floats, Spans, loose_spans, spans_of

CaseKey = tuple[str, int, str, str]  # task, users, Python, server


class Round:
    """One record, with the bare case of its round as its ceiling (None if that was not measured)."""

    def __init__(self, record: Record, ceiling: Round | None = None) -> None:
        self.record = record
        self.ceiling = ceiling
        columns = record.transactions
        right = np.asarray(columns.size_bytes, dtype=int) == record.answer_bytes
        self.good: Flags = right & (np.asarray(columns.status, dtype=int) == 200)

    @cached_property
    def spans(self) -> Spans:
        """The requests of the users."""
        columns = self.record.transactions
        return spans_of(columns.finished_s, columns.siege_s, columns.user, self.good)

    @cached_property
    def checks(self) -> Spans:
        """The harness's own requests for the task."""
        checks = self.record.checks
        return loose_spans(checks.sent_s, checks.answered_s, [not code for code in checks.code])

    @cached_property
    def rate(self) -> SteadyRate:
        """The rate over the steady part. The harness's own requests are work done, too."""
        return steady_rate(self.spans, self.record.users, self.record.siege_s or 0.0, self.checks)

    @property
    def of_ceiling(self) -> float | None:
        """Its rate as a fraction of the ceiling of the same round."""
        if self.ceiling is None or not self.ceiling.rate.per_s or self.rate.per_s is None:
            return None
        return self.rate.per_s / self.ceiling.rate.per_s

    @property
    def attempts(self) -> int:
        """Requests that ended in one way or another."""
        return len(self.good) + self.record.socket_failures

    @property
    def completed(self) -> int:
        """Right answers."""
        return int(self.good.sum())

    @cached_property
    def steady_s(self) -> Floats:
        """How long the requests took whose right answers came in the steady part."""
        return self.spans.duration_s[self._steady]

    def steady_at_most_s(self) -> Floats:
        """How long each of them can have taken, given what siege itself says, rounded down to its step."""
        columns, ended_s = self.record.transactions, self.spans.ended_s[self._steady]
        longest: dict[float, float] = {}
        for ended, took in zip(columns.finished_s, columns.siege_s, strict=True):
            longest[ended] = max(took, longest.get(ended, 0.0))
        by_siege = np.array([longest[ended] + SIEGE_STEP_S for ended in ended_s.tolist()])
        return np.maximum(self.steady_s, by_siege) if len(by_siege) else by_siege

    @cached_property
    def _steady(self) -> Flags:
        return self.spans.good & (self.spans.ended_s >= self.rate.from_s)

    def steady_siege_s(self) -> Floats:
        """How long siege says the answers of the steady part took."""
        columns = self.record.transactions
        steady = np.asarray(columns.finished_s) >= self.rate.from_s
        return np.asarray(columns.siege_s, dtype=float)[steady]

    def rate_of_users(self) -> float | None:
        """The rate without the harness's own requests."""
        return steady_rate(self.spans, self.record.users, self.record.siege_s or 0.0).per_s

    def rates_of_quarters(self) -> list[float]:
        """The rate in each quarter of the steady part."""
        if self.rate.per_s is None or not self.record.siege_s:
            return []
        edges = np.linspace(self.rate.from_s, self.record.siege_s, 5)
        return [rate_between(self.spans, self.checks, start, end) for start, end in itertools.pairwise(edges)]

    def server_cpu_s(self) -> float | None:
        """CPU seconds of the whole server between the first sample and the last."""
        used = self.record.samples.cpu_s
        return used[-1] - used[0] if len(used) > 1 else None

    def cpu_s_per_transaction(self) -> float | None:
        """CPU seconds of the whole server over the steady part, for each transaction in it."""
        samples, end_s = self.record.samples, self.record.siege_s
        if not self.rate.per_s or len(samples.at_s) < 2 or end_s is None:
            return None
        from_s, to_s = max(self.rate.from_s, samples.at_s[0]), min(end_s, samples.at_s[-1])
        used = np.interp([from_s, to_s], samples.at_s, samples.cpu_s)
        return float((used[1] - used[0]) / (to_s - from_s) / self.rate.per_s)

    def memory_bytes(self) -> int | None:
        """The most memory that the server took while the siege was on."""
        return max(self.record.samples.memory_bytes, default=None)


def cases_of(records: Iterable[Record]) -> Iterator[tuple[Sequence[Round], bool]]:
    """The rounds of each case, in the order of the servers' numbers, and whether it is the bare one."""
    rounds = sorted(records, key=lambda record: (_order(record), record.round))
    bare = {(*_setting(record), record.round): Round(record) for record in rounds if record.server == BARE}
    cases: dict[CaseKey, list[Round]] = {}
    for record in rounds:
        ceiling = bare.get((*_setting(record), record.round))
        cases.setdefault((*_setting(record), record.server), []).append(Round(record, ceiling))
    for key, case in cases.items():
        yield case, key[-1] == BARE


def _setting(record: Record) -> tuple[str, int, str]:
    return record.task, record.users, record.python


def _order(record: Record) -> tuple[str, int, str, int, str]:
    number = record.server.split("_")[0]
    place = -1 if record.server == BARE else int(number) if number.isdigit() else 10**9
    return (*_setting(record), place, record.server)
