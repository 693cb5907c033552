"""Summarize a case with statistics over all its rounds, computed from the raw values."""

from collections.abc import Sequence
from statistics import median

import msgspec

from under_siege.judge.estimators import together
from under_siege.judge.measured_case import MeasuredCase
from under_siege.judge.metric import MetricValue
from under_siege.judge.metric_estimates import Values
from under_siege.judge.request_summary import RequestSummary, requests_of
from under_siege.judge.round_statistics import Round
from under_siege.judge.server_processes import ProcessSummary, watched
from under_siege.judge.speed_correction import SpeedCorrection
from under_siege.judge.stream_statistics import head_start_s, longest_gap_s
from under_siege.judge.suspicions import Evidence
from under_siege.judge.verdict_rules import FAILED, OK, CaseEstimates, Reason, judge, verdict_of
from under_siege.record.case import Case, Value, case_of

VISIBLE_S, STUTTER = 0.1, 2.0  # users notice a gap of this length that is this many times the median gap


class Interval(msgspec.Struct, frozen=True):
    """A mean over rounds and its 95 % confidence interval."""

    mean: float
    low: float | None = None
    high: float | None = None


class Latency(msgspec.Struct, frozen=True):
    """Latency over all rounds, in seconds; a percentile is None if it was not reached before the siege ended."""

    p50: float | None
    p95: float | None
    p99: float | None
    max: float  # longest wait, including unanswered requests; percentiles that were not reached are longer
    p50_low: float | None = None  # bounds of the 95 % confidence intervals
    p50_high: float | None = None
    p95_low: float | None = None
    p95_high: float | None = None
    p99_low: float | None = None
    p99_high: float | None = None

    @property
    def least_p99(self) -> float:
        """Return the p99 or, if it was not reached, the longest wait, which is a lower bound."""
        return self.max if self.p99 is None else self.p99


class EventTimes(msgspec.Struct, frozen=True):
    """First events of streams, or gaps between events, in seconds; None if a percentile was not reached."""

    p50: float | None
    p99: float | None
    max: float

    @property
    def least_p99(self) -> float:
        """Return the p99 or, if it was not reached, the longest wait, which is a lower bound."""
        return self.max if self.p99 is None else self.p99


class Speed(msgspec.Struct, frozen=True):
    """The speed of the machine while a case was measured, as a multiple of its usual speed."""

    mean: float
    lowest: float
    highest: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table and an object in `report --format json`. Don't rename fields, because programs read them."""

    server: str
    title: str
    task: str
    users: int
    workers: int | None  # as reported by the server
    python: str
    parameters: dict[str, Value] = {}  # values on other axes
    rounds: int
    gil: bool | None = None  # whether the GIL was enabled; None if this Python can't disable it
    gil_enabled_by: str = ""  # extension module whose import enabled the GIL
    verdict: str = OK
    reasons: list[Reason] = []
    rate_per_s: Interval | None = None  # adjusted for CPU speed and lost CPU time if possible; of streams: events
    measured_per_s: float | None = None  # the same without any adjustment
    ceiling_per_s: float | None = None
    of_ceiling: Interval | None = None
    availability_pct: float | None = None
    transactions: int = 0
    response_s: Latency | None = None
    ping_s: Latency | None = None
    events_per_s: Interval | None = None  # of streams; the same as `rate_per_s`
    first_event_s: EventTimes | None = None
    gap_s: EventTimes | None = None
    text_events: list[str] = []  # which events of streams count, by JSON path or pattern; empty: all events
    idle_gap_s: float | None = None  # longest gap between events of a stream while the server was idle
    later_gap_p99_s: float | None = None  # gap p99 without the first gap of each stream
    head_start_s: float = 0.0  # how much earlier than the others the first event came while the server was idle
    cpu_s_per_transaction: float | None = None
    ready_s: float | None = None  # time to the first correct response to a ping
    memory_bytes: int | None = None
    memory_kind: str = ""
    cpus: float | None = None  # CPU quota
    memory_limit_bytes: int | None = None
    throttled_pct: float | None = None
    requests: list[RequestSummary] = []  # of a load with several different requests
    processes: list[ProcessSummary] = []  # of every round
    speed: Speed | None = None
    rank: int | None = None
    metrics: dict[str, MetricValue] = {}  # all metrics of the table, by key; speed-adjusted as in the table
    best: list[str] = []  # metrics in which this case is not significantly worse than the best, but other cases are

    @property
    def case(self) -> Case:
        values = {"task": self.task or None, "users": self.users or None, "python": self.python or None}
        return case_of(self.server, {**values, **self.parameters})

    @property
    def rate(self) -> float:
        """Return the mean rate, or 0 if there is no rate."""
        return self.rate_per_s.mean if self.rate_per_s else 0.0

    @property
    def has_streams(self) -> bool:
        return self.first_event_s is not None

    @property
    def stutters(self) -> bool:
        """Return whether users notice pauses in the streams that an idle server does not make.

        If the second event comes late even then, a pause before it is a wait for the text, and doesn't count.
        """
        gap = self.gap_s
        p99_s = self.later_gap_p99_s if self.head_start_s else gap and gap.p99
        if not gap or not gap.p50 or not p99_s:
            return False
        idle_s = 0.0 if self.head_start_s else self.idle_gap_s or 0.0  # the longest idle gap is then the head start
        return p99_s >= max(VISIBLE_S, STUTTER * gap.p50, STUTTER * idle_s)

    @property
    def counted(self) -> str:
        """Return what the rate counts: `responses`, or `events` of streams."""
        return "events" if self.has_streams else "responses"

    def shown(self, key: str) -> float | None:
        """Return the value of a metric as tables show it, or None if it is unknown."""
        return self.metrics[key].value if key in self.metrics else None


def summary_of(
    rounds: Sequence[Round],
    values: Values,
    estimates: CaseEstimates,
    correction: SpeedCorrection,
    evidence: Evidence,
) -> Summary:
    """Return the statistics and the verdict of one case, but not its rank, which depends on the other cases."""
    first, case = rounds[0].record, rounds[0].case
    gil = [run.record.gil for run in rounds if run.record.gil is not None]
    reasons = judge(rounds, estimates, evidence)
    summary = Summary(
        server=first.server,
        title=first.title,
        task=case.task,
        users=case.users,
        workers=first.workers,
        python=case.python,
        parameters=case.parameters,
        rounds=len(rounds),
        gil=any(gil) if gil else None,
        gil_enabled_by=next(filter(None, (run.record.gil_enabled_by for run in rounds)), ""),
        verdict=verdict_of(reasons),
        reasons=reasons,
        ceiling_per_s=MeasuredCase(rounds, correction).mean(
            lambda run: run.ceiling.rate.per_s if run.ceiling else None
        ),
        transactions=sum(run.completed for run in rounds),
        processes=[each.summary for run in rounds for each in watched(run)],
        speed=_speed(rounds, values, correction),
    )
    return summary if summary.verdict == FAILED else _with_numbers(summary, rounds, values)


def _with_numbers(summary: Summary, rounds: Sequence[Round], values: Values) -> Summary:
    rate, measured = values.get("rate_per_s"), _value(values, "rate_as_measured_per_s")
    share, memory_bytes = values.get("of_ceiling"), _value(values, "memory_bytes")
    idle = [run.record.idle_events_s for run in rounds if run.record.idle_events_s]
    per_s = None if rate is None or rate.value is None else Interval(rate.value, rate.low, rate.high)
    return msgspec.structs.replace(
        summary,
        rate_per_s=per_s,
        events_per_s=per_s if rounds[0].streams else None,
        text_events=rounds[0].record.text_events,
        first_event_s=_event_times("first_event", values),
        gap_s=_event_times("gap", values),
        idle_gap_s=median(map(longest_gap_s, idle)) if idle else None,
        later_gap_p99_s=together(run.streams.later_gaps for run in rounds if run.streams).percentile(99),
        head_start_s=median(map(head_start_s, idle)) if idle else 0.0,
        measured_per_s=measured,
        of_ceiling=None if share is None or share.value is None else Interval(share.value, share.low, share.high),
        availability_pct=_value(values, "availability_pct"),
        response_s=_latency("response", values),
        ping_s=_latency("ping", values),
        cpu_s_per_transaction=_value(values, "cpu_s_per_transaction"),
        ready_s=_value(values, "ready_s"),
        memory_bytes=None if memory_bytes is None else int(memory_bytes),
        cpus=rounds[0].quota,
        memory_limit_bytes=rounds[0].record.limits.memory_bytes if rounds[0].record.limits else None,
        throttled_pct=_value(values, "throttled_pct"),
        requests=requests_of(rounds),
        memory_kind=next(filter(None, (run.record.memory_kind for run in rounds)), ""),
        metrics=values,
    )


def _value(values: Values, key: str) -> float | None:
    return values[key].value if key in values else None


def _latency(kind: str, values: Values) -> Latency | None:
    longest_s = _value(values, f"{kind}_max_s")
    if longest_s is None:
        return None
    p50, p95, p99 = (values.get(f"{kind}_{name}_s") or MetricValue(None) for name in ("p50", "p95", "p99"))
    edges = [
        edge for one in (p50, p95, p99) for edge in (one.interval if one.value is not None else None) or (None, None)
    ]
    return Latency(p50.value, p95.value, p99.value, longest_s, *edges)


def _event_times(kind: str, values: Values) -> EventTimes | None:
    longest_s = _value(values, f"{kind}_max_s")
    if longest_s is None:
        return None
    return EventTimes(_value(values, f"{kind}_p50_s"), _value(values, f"{kind}_p99_s"), longest_s)


def _speed(rounds: Sequence[Round], values: Values, correction: SpeedCorrection) -> Speed | None:
    mean = _value(values, "speed")
    extremes = [extreme for run in rounds if (extreme := correction.rounds[run].lowest_and_highest) is not None]
    if mean is None or not extremes:
        return None
    return Speed(mean, min(low for low, _ in extremes), max(high for _, high in extremes))
