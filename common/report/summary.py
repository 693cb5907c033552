"""The summary of a case: statistics over all its rounds, computed from the raw values whenever they are read."""

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby

import msgspec
import numpy as np
from scipy.special import stdtrit

from common.record import Record, Result
from common.report.rate import Span, SteadyRate, spans_of, steady_rate
from common.report.verdict import OK, Reason, judge, verdict_of

CONFIDENCE = 0.95


class Interval(msgspec.Struct, frozen=True):
    """A mean over rounds and its 95 % confidence interval, which one round doesn't have."""

    mean: float
    low: float | None = None
    high: float | None = None


class Latency(msgspec.Struct, frozen=True):
    """Response times in seconds, over all rounds."""

    mean: float
    p50: float
    p95: float
    p99: float
    max: float


class PingLatency(msgspec.Struct, frozen=True):
    """Ping times in seconds, over all rounds."""

    p50: float
    p99: float
    max: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table, and one object of `report --format json`: the names are a contract."""

    server: str
    title: str
    task: str
    users: int
    workers: int | None
    python: str
    rounds: int
    verdict: str = OK
    reasons: list[Reason] = []
    rate_per_s: Interval | None = None
    availability_pct: float | None = None
    transactions: int = 0
    response_s: Latency | None = None
    ping_s: PingLatency | None = None
    cpu_s_per_transaction: float | None = None
    memory_pss_bytes: int | None = None


class Round:
    """What one record says, in the terms of the summary."""

    def __init__(self, record: Record) -> None:
        self.record = record
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
    def rate(self) -> SteadyRate:
        """The rate over the steady part."""
        return steady_rate(self.spans, self.record.users, self.record.siege_s or 0.0)

    @property
    def attempts(self) -> int:
        """Requests that ended in one way or another."""
        return len(self.good) + self.record.socket_failures

    def response_s(self) -> list[float]:
        """How long the right answers of the steady part took."""
        spans = [span for requests in self.spans.values() for span in requests]
        return [span.duration_s for span in spans if span.good and span.ended_s >= self.rate.from_s]

    def ping_s(self) -> list[float]:
        """How long pings waited, given up ones included."""
        return self.record.pings.waited_s

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


def summarize(result: Result) -> list[Summary]:
    """A summary for each case, in the order of the servers' numbers."""
    records = sorted(result.records, key=_case_key)
    return [_summary([Round(record) for record in group]) for _, group in groupby(records, key=_case_key)]


def _case_key(record: Record) -> tuple[str, int, str, int, str]:
    number = record.server.split("_")[0]
    return (
        record.task,
        record.users,
        record.python,
        int(number) if number.isdigit() else 10**9,
        record.server,
    )


def _summary(rounds: Sequence[Round]) -> Summary:
    first = rounds[0].record
    reasons = judge(rounds)
    verdict = verdict_of(reasons)
    identity = Summary(
        server=first.server,
        title=first.title,
        task=first.task,
        users=first.users,
        workers=first.workers,
        python=first.python,
        rounds=len(rounds),
        verdict=verdict,
        reasons=reasons,
        transactions=sum(sum(one.good) for one in rounds),
    )
    return identity if verdict == "failed" else _with_numbers(identity, rounds)


def _with_numbers(summary: Summary, rounds: Sequence[Round]) -> Summary:
    attempts = sum(one.attempts for one in rounds)
    return msgspec.structs.replace(
        summary,
        rate_per_s=_interval([one.rate.per_s for one in rounds if one.rate.per_s is not None]),
        availability_pct=100 * summary.transactions / attempts if attempts else None,
        response_s=_latency([value for one in rounds for value in one.response_s()]),
        ping_s=_ping_latency([value for one in rounds for value in one.ping_s()]),
        cpu_s_per_transaction=_mean([one.cpu_s_per_transaction() for one in rounds]),
        memory_pss_bytes=_median([one.memory_bytes() for one in rounds]),
    )


def _interval(values: Sequence[float]) -> Interval | None:
    """Mean and Student's t interval over rounds (Student, The probable error of a mean, Biometrika 1908)."""
    if not values:
        return None
    mean = float(np.mean(values))
    if len(values) == 1:
        return Interval(mean)
    standard_error = float(np.std(values, ddof=1)) / len(values) ** 0.5
    margin = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * standard_error
    return Interval(mean, mean - margin, mean + margin)


def _latency(values: Sequence[float]) -> Latency | None:
    if not values:
        return None
    p50, p95, p99 = (float(value) for value in np.percentile(values, [50, 95, 99]))
    return Latency(float(np.mean(values)), p50, p95, p99, max(values))


def _ping_latency(values: Sequence[float]) -> PingLatency | None:
    if not values:
        return None
    p50, p99 = (float(value) for value in np.percentile(values, [50, 99]))
    return PingLatency(p50, p99, max(values))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _median(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return int(np.median(known)) if known else None
