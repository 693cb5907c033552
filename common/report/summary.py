"""The summary of a case: statistics over all its rounds, computed from the raw values whenever they are read."""

from collections.abc import Sequence

import msgspec
import numpy as np

from common.record import Result
from common.report.intervals import Interval, mean_interval
from common.report.ranking import ranks
from common.report.rounds import Round, cases_of
from common.report.spans import Floats
from common.report.verdict import FAILED, OK, Reason, judge, verdict_of


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
    gil: bool | None = None  # whether the server had one while it served; None where it can't be otherwise
    verdict: str = OK
    reasons: list[Reason] = []
    rate_per_s: Interval | None = None
    ceiling_per_s: float | None = None
    of_ceiling: float | None = None
    availability_pct: float | None = None
    transactions: int = 0
    response_s: Latency | None = None
    ping_s: PingLatency | None = None
    cpu_s_per_transaction: float | None = None
    memory_pss_bytes: int | None = None
    rank: int | None = None


class Comparison(msgspec.Struct, frozen=True):
    """All that a result says: the strategies, and the bare cases that are their ceilings."""

    # Not a part of any report itself: the reports pick from it what they show.

    cases: list[Summary]
    ceilings: list[Summary]
    rounds: list[list[Round]]  # of each of `cases`
    bare_rounds: list[list[Round]]  # of each of `ceilings`

    def every_round(self) -> list[Round]:
        """Case by case, the bare ones first."""
        return [one for case in (*self.bare_rounds, *self.rounds) for one in case]


def summarize(result: Result) -> Comparison:
    """The summary of every case, in the order of the servers' numbers."""
    cases, rounds, ceilings, bare_rounds = [], [], [], []
    for case, is_bare in cases_of(result.records):
        summary = summary_of(case)
        if is_bare:
            ceilings.append(summary)
            bare_rounds.append(list(case))
        else:
            cases.append(summary)
            rounds.append(list(case))
    ranked = [
        msgspec.structs.replace(summary, rank=rank) for summary, rank in zip(cases, ranks(cases, rounds), strict=True)
    ]
    return Comparison(ranked, ceilings, rounds, bare_rounds)


def summary_of(rounds: Sequence[Round]) -> Summary:
    """What so many rounds of one case say; without a rank, which only a comparison gives."""
    first = rounds[0].record
    reasons = judge(rounds)
    identity = Summary(
        server=first.server,
        title=first.title,
        task=first.task,
        users=first.users,
        workers=first.workers,
        python=first.python,
        rounds=len(rounds),
        gil=_gil([one.record.gil for one in rounds]),
        verdict=verdict_of(reasons),
        reasons=reasons,
        ceiling_per_s=_mean([one.ceiling.rate.per_s for one in rounds if one.ceiling]),
        transactions=sum(one.completed for one in rounds),
    )
    return identity if identity.verdict == FAILED else _with_numbers(identity, rounds)


def _with_numbers(summary: Summary, rounds: Sequence[Round]) -> Summary:
    attempts = sum(one.attempts for one in rounds)
    pings = [value for one in rounds for value in one.record.pings.waited_s]
    return msgspec.structs.replace(
        summary,
        rate_per_s=mean_interval([one.rate.per_s for one in rounds if one.rate.per_s is not None]),
        of_ceiling=_mean([one.of_ceiling for one in rounds]),
        availability_pct=100 * summary.transactions / attempts if attempts else None,
        response_s=_latency(np.concatenate([one.steady_s for one in rounds])),
        ping_s=_ping_latency(pings),
        cpu_s_per_transaction=_mean([one.cpu_s_per_transaction() for one in rounds]),
        memory_pss_bytes=_median([one.memory_bytes() for one in rounds]),
    )


def _latency(values: Floats) -> Latency | None:
    if not len(values):
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return Latency(float(values.mean()), float(p50), float(p95), float(p99), float(values.max()))


def _ping_latency(values: Sequence[float]) -> PingLatency | None:
    if not values:
        return None
    p50, p99 = np.percentile(values, [50, 99])
    return PingLatency(float(p50), float(p99), max(values))


def _gil(seen: Sequence[bool | None]) -> bool | None:
    known = [value for value in seen if value is not None]
    return any(known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _median(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return int(np.median(known)) if known else None
