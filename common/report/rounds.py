"""What one record says, in the terms of the report, beside the bare case of the same round."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from common.record import BARE, Record
from common.report.rate import SIEGE_STEP_S, Span, SteadyRate, rate_between, spans_of, steady_rate

CaseKey = tuple[str, int, str, str]  # task, users, Python, server


class Round:
    """One record, with the bare case of its round as its ceiling (None if that was not measured)."""

    def __init__(self, record: Record, ceiling: Round | None = None) -> None:
        self.record = record
        self.ceiling = ceiling
        columns = record.transactions
        self.good = [
            status == 200 and size == record.answer_bytes
            for status, size in zip(columns.status, columns.size_bytes, strict=True)
        ]

    @cached_property
    def spans(self) -> dict[int, list[Span]]:
        """The requests of each user."""
        columns = self.record.transactions
        return spans_of(columns.finished_s, columns.siege_s, columns.user, self.good)

    @cached_property
    def checks(self) -> list[Span]:
        """The harness's own requests for the task."""
        checks = self.record.checks
        columns = zip(checks.sent_s, checks.answered_s, checks.code, strict=True)
        return [Span(sent, answered, not code) for sent, answered, code in columns]

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

    @cached_property
    def steady_spans(self) -> list[Span]:
        """The requests with right answers that ended in the steady part."""
        spans = (span for requests in self.spans.values() for span in requests)
        return [span for span in spans if span.good and span.ended_s >= self.rate.from_s]

    def longest_s(self, span: Span) -> float:
        """How long a request can have taken at the most, given what siege itself says, rounded down to its step."""
        return max(span.duration_s, self._siege_s.get(span.ended_s, 0.0) + SIEGE_STEP_S)

    @cached_property
    def _siege_s(self) -> dict[float, float]:
        columns = self.record.transactions
        longest: dict[float, float] = {}
        for ended, took in zip(columns.finished_s, columns.siege_s, strict=True):
            longest[ended] = max(took, longest.get(ended, 0.0))
        return longest

    def steady_siege_s(self) -> list[float]:
        """How long siege says the answers of the steady part took."""
        columns = zip(self.record.transactions.finished_s, self.record.transactions.siege_s, strict=True)
        return [took for ended, took in columns if ended >= self.rate.from_s]

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
