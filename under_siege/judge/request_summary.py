"""Summarize each of several different requests of a load: its share, availability, latency and size."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain

import msgspec
import numpy as np

from under_siege.judge.estimates import Estimate, estimates, share_between
from under_siege.judge.estimators import availability
from under_siege.judge.metric import MetricValue
from under_siege.judge.round_statistics import Round
from under_siege.record.record import SentRequest

FEWEST_RESPONSES = 20  # in all rounds, for a percentile of one request
# A request waits for another one if its p99 is this multiple of its latency alone, and if the other one
# takes this multiple of that latency.
MUCH_LONGER, LONGEST_OF_ALONE = 5.0, 4.0


class Percentiles(msgspec.Struct, frozen=True):
    """Response times in seconds."""

    p50: float | None
    p99: float | None


class RequestSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An object in `requests` of `report --format json`. Don't rename fields, because programs read them."""

    method: str  # such as `GET`, or `GET/POST` if the load tool reports only paths
    path: str
    share_pct: float
    availability_pct: float | None  # None: the load tool does not say which requests were lost
    response_s: Percentiles
    mean_bytes: float
    alone_s: float | None = None  # response time of the idle server
    metrics: dict[str, MetricValue] = {}  # with intervals, by the keys of the table of metrics

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


class _Part(msgspec.Struct, frozen=True):
    """What one round tells about one request."""

    count: int
    right: int
    p50_s: float | None
    p99_s: float | None
    size_bytes: float
    left: int = 0  # requests that the end of the load cut off
    lost_by_any: int = 0  # requests without a response, for this or another request of the mix

    @property
    def sent(self) -> int:
        return self.count + self.left


def requests_of(rounds: Sequence[Round]) -> list[RequestSummary]:
    """Return a summary of each request, or an empty list if all requests are equal, or can't be told apart."""
    sent = rounds[0].record.mix
    parts = [[_part(run, index) for run in rounds] for index in range(len(sent))]
    total = sum(part.count for part in chain.from_iterable(parts))
    counted = {one.path for one, of_request in zip(sent, parts, strict=True) if any(part.sent for part in of_request)}
    found = []
    for index, of_request in enumerate(parts):
        count = sum(part.count for part in of_request)
        may_be_lost = sent[index].path not in counted and any(part.lost_by_any for part in of_request)
        if may_be_lost or any(part.sent for part in of_request):
            same = [other.method for other, rest in zip(sent, parts, strict=True) if _is_same(other, rest, sent[index])]
            method = "/".join(dict.fromkeys([sent[index].method, *same]))
            found.append(_summary(method, sent[index], of_request, 100 * count / max(1, total)))
    return found


def _is_same(other: SentRequest, parts: Sequence[_Part], one: SentRequest) -> bool:
    """Return whether another request has the same path, and its responses were counted with those of the first."""
    return other.path == one.path and not any(part.sent for part in parts)


def _part(run: Round, index: int) -> _Part:
    record, mine = run.record, run.rows[run.rows.request == index]
    if record.mix and len(run.rows):
        counted, waited = availability(mine), run.waits_of(mine)
        ended = mine[~mine.is_open]
        p50_s, p99_s = waited.percentile(50), waited.percentile(99)
        size_bytes = float(ended.size_bytes.sum())
        left = len(mine) - counted.counted
        return _Part(counted.counted, counted.correct, p50_s, p99_s, size_bytes, left, record.unlisted_losses)
    bursts = [totals for burst in record.bursts.requests for totals in burst if totals.index == index]
    if not bursts:
        return _Part(0, 0, None, None, 0.0)
    return _Part(
        sum(totals.requests for totals in bursts),
        sum(totals.requests - totals.failed for totals in bursts),
        float(np.median([totals.p50_s for totals in bursts])),
        float(np.median([totals.p99_s for totals in bursts])),
        float(sum(totals.body_bytes for totals in bursts)),
    )


def _summary(method: str, request: SentRequest, parts: Sequence[_Part], share_pct: float) -> RequestSummary:
    count, right = [part.count for part in parts], [part.right for part in parts]
    is_enough, sent = sum(count) >= FEWEST_RESPONSES, [part for part in parts if part.sent]
    p50, p99 = estimates([_of_all([part.p50_s for part in sent]), _of_all([part.p99_s for part in sent if is_enough])])
    lost = [part.lost_by_any for part in parts]
    low, _ = share_between(right, [one + more for one, more in zip(count, lost, strict=True)])
    _, high = share_between(right, count)
    availability_pct = None if any(lost) or not any(count) else 100 * sum(right) / sum(count)
    metrics = {
        "response_p50_s": _value(p50),
        "response_p99_s": _value(p99),
        "availability_pct": MetricValue(availability_pct, 100 * low, 100 * high),
    }
    return RequestSummary(
        method=method,
        path=request.path,
        share_pct=share_pct,
        availability_pct=availability_pct,
        response_s=Percentiles(metrics["response_p50_s"].value, metrics["response_p99_s"].value),
        mean_bytes=sum(part.size_bytes for part in parts) / max(1, sum(count)),
        alone_s=request.alone_s,
        metrics=metrics,
    )


def _of_all(values: Sequence[float | None]) -> Sequence[float | None]:
    """Return the values of all rounds, or none if one is unknown, because it stands for a long wait."""
    return [] if None in values else values


def _value(estimate: Estimate | None) -> MetricValue:
    if estimate is None:
        return MetricValue(None)
    low, high = estimate.interval() or (None, None)
    return MetricValue(estimate.mean, low, high)


def waiting(requests: Sequence[RequestSummary]) -> Iterator[tuple[RequestSummary, RequestSummary]]:
    """Yield each request that waits for a longer one, with that one: alone, it takes a fraction of the time."""
    longest = max(requests, key=lambda request: request.alone_s or 0.0, default=None)
    for request in requests:
        alone_s, p99_s = request.alone_s or math.inf, request.response_s.p99
        if longest is None or p99_s is None or (longest.alone_s or 0.0) < LONGEST_OF_ALONE * alone_s:
            continue
        if p99_s >= MUCH_LONGER * alone_s and p99_s - alone_s >= (longest.alone_s or 0.0) / 2:
            yield request, longest
