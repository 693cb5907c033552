"""Summarize a case: statistics over all its rounds, computed from the raw values."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

import msgspec

from under_siege.checks.evidence import Evidence
from under_siege.checks.verdict import FAILED, OK, Reason, judge, verdict_of
from under_siege.model.case import Case, Value, case_of
from under_siege.stats.estimates import Estimate
from under_siege.stats.rounds_data import CensoredSamples, Round, together
from under_siege.stats.speed_correction import SpeedCorrection


class Interval(msgspec.Struct, frozen=True):
    """A mean over rounds and its 95 % confidence interval."""

    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def half_width(self) -> float | None:
        """As a fraction of the middle."""
        return None if self.high is None or self.low is None else (self.high - self.low) / (self.high + self.low)


class Latency(msgspec.Struct, frozen=True):
    """Waiting times in seconds, over all rounds; a percentile that was not reached when the siege ended is None."""

    p50: float | None
    p95: float | None
    p99: float | None
    max: float  # the longest that was seen, answered or not: what was not reached is longer than this
    p50_low: float | None = None  # 95 % confidence intervals
    p50_high: float | None = None
    p95_low: float | None = None
    p95_high: float | None = None
    p99_low: float | None = None
    p99_high: float | None = None


class Speed(msgspec.Struct, frozen=True):
    """How fast the machine was while a case was measured, as a multiple of its usual speed."""

    mean: float
    lowest: float
    highest: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table, and one object of `report --format json`: the names are a contract."""

    server: str
    title: str
    task: str
    users: int
    workers: int | None  # as the server says
    python: str
    parameters: dict[str, Value] = {}  # the values on further axes
    rounds: int
    gil: bool | None = None  # whether the server had one while it served; None where it can't be otherwise
    gil_enabled_by: str = ""  # the extension module whose import enabled it
    verdict: str = OK
    reasons: list[Reason] = []
    rate_per_s: Interval | None = None  # the mean as measured, the interval at the usual speed of the machine
    rate_at_usual_speed_per_s: float | None = None  # where the measured one was corrected
    ceiling_per_s: float | None = None
    of_ceiling: Interval | None = None
    availability_pct: float | None = None
    transactions: int = 0
    response_s: Latency | None = None
    ping_s: Latency | None = None
    cpu_s_per_transaction: float | None = None
    ready_s: float | None = None  # from its start to its first right answer to a ping
    memory_bytes: int | None = None
    memory_kind: str = ""
    speed: Speed | None = None
    rank: int | None = None
    best: list[str] = []  # the figures in which it can't be told from the best, and something is beaten

    @property
    def case(self) -> Case:
        """What was measured."""
        values = {"task": self.task or None, "users": self.users or None, "python": self.python or None}
        return case_of(self.server, {**values, **self.parameters})

    @property
    def usual_rate_per_s(self) -> float:
        """As it is compared: at the usual speed of the machine, where that is known; 0 where there is none."""
        return 0.0 if self.rate_per_s is None else self.rate_at_usual_speed_per_s or self.rate_per_s.mean

    def as_measured(self, figure: str) -> float | None:
        """Return a metric that cases are compared in, without any correction for the speed of the machine."""
        if figure != "rate_per_s":
            return self.shown(figure)
        return None if self.rate_per_s is None else self.rate_per_s.mean

    def shown(self, figure: str) -> float | None:
        """One of the figures that cases are compared in, as it is shown."""
        if figure == "rate_per_s":
            return self.usual_rate_per_s or None
        what, _, percentile = figure.removesuffix("_s").partition("_")
        latency = {"response": self.response_s, "ping": self.ping_s}.get(what)
        if what in ("response", "ping"):
            return None if latency is None else getattr(latency, percentile)
        value: float | None = getattr(self, figure)
        return value


def summary_of(
    rounds: Sequence[Round], estimates: dict[str, Estimate | None], correction: SpeedCorrection, evidence: Evidence
) -> Summary:
    """Return what so many rounds of one case say; without a rank, which only a comparison gives."""
    first, case = rounds[0].record, rounds[0].case
    reasons = judge(rounds, estimates, evidence)
    identity = Summary(
        server=first.server,
        title=first.title,
        task=case.task,
        users=case.users,
        workers=first.workers,
        python=case.python,
        parameters=case.parameters,
        rounds=len(rounds),
        gil=_gil([one.record.gil for one in rounds]),
        gil_enabled_by=next((one.record.gil_enabled_by for one in rounds if one.record.gil_enabled_by), ""),
        verdict=verdict_of(reasons),
        reasons=reasons,
        ceiling_per_s=_mean([one.ceiling.rate.per_s for one in rounds if one.ceiling]),
        transactions=sum(one.completed for one in rounds),
        speed=_speed(rounds, correction),
    )
    return identity if identity.verdict == FAILED else _with_numbers(identity, rounds, estimates, correction)


def _with_numbers(
    summary: Summary, rounds: Sequence[Round], estimates: dict[str, Estimate | None], correction: SpeedCorrection
) -> Summary:
    attempts = sum(one.attempts for one in rounds)
    rate, at_usual_speed = _rate(rounds, estimates.get("rate_per_s"), correction)
    return msgspec.structs.replace(
        summary,
        rate_per_s=rate,
        rate_at_usual_speed_per_s=at_usual_speed,
        of_ceiling=_of_ceiling(estimates.get("of_ceiling")),
        availability_pct=100 * summary.transactions / attempts if attempts else None,
        response_s=_response(rounds, estimates),
        ping_s=_latency([one.pings for one in rounds], "ping", estimates),
        cpu_s_per_transaction=_mean([one.cpu_s_per_transaction() for one in rounds]),
        ready_s=_median_of([one.record.ready_s for one in rounds]),
        memory_bytes=_median([one.memory_bytes() for one in rounds]),
        memory_kind=next((one.record.memory_kind for one in rounds if one.record.memory_kind), ""),
    )


def _rate(
    rounds: Sequence[Round], estimate: Estimate | None, correction: SpeedCorrection
) -> tuple[Interval | None, float | None]:
    """Return the rate with its interval, and what it would be at the usual speed, if it was corrected for that."""
    measured = _mean([one.rate.per_s for one in rounds])
    if measured is None:
        return None, None
    at_usual_speed = estimate.mean if estimate and correction.coefficient(rounds[0]) else None
    edges = estimate.interval(besides=correction.shared_variance(rounds)) if estimate else None
    return Interval(measured, *(edges or ())), at_usual_speed


def _of_ceiling(estimate: Estimate | None) -> Interval | None:
    return None if estimate is None else Interval(estimate.mean, *(estimate.interval() or ()))


def _speed(rounds: Sequence[Round], correction: SpeedCorrection) -> Speed | None:
    usual = _mean([correction.speed(one) for one in rounds])
    extremes = [extreme for one in rounds if (extreme := correction.lowest_and_highest(one)) is not None]
    if usual is None or not extremes:
        return None
    return Speed(usual, min(low for low, _ in extremes), max(high for _, high in extremes))


def _response(rounds: Sequence[Round], estimates: dict[str, Estimate | None]) -> Latency | None:
    """From single answers; else the medians over all bursts of all rounds, if the tool tells percentiles."""
    bursts = [one.totals for one in rounds if one.totals]
    if not bursts:
        return _latency([one.responses for one in rounds], "response", estimates)
    p50, p95, p99 = (_median_of([one.percentile(percent) for one in bursts]) for percent in (50, 95, 99))
    if p50 is None:
        return None
    longest_s = max(one.longest_s for one in bursts)
    return Latency(p50, p95, p99, longest_s, *_edges((p50, p95, p99), "response", estimates))


def _latency(several: Sequence[CensoredSamples], name: str, estimates: dict[str, Estimate | None]) -> Latency | None:
    waits = together(several)
    if not len(waits.waited_s):
        return None
    p50, p95, p99 = (waits.percentile(percent) for percent in (50, 95, 99))
    return Latency(p50, p95, p99, waits.seen_up_to_s(), *_edges((p50, p95, p99), name, estimates))


def _edges(values: Sequence[float | None], name: str, estimates: dict[str, Estimate | None]) -> list[float | None]:
    """Return the intervals of the three percentiles, as far as there are any."""
    edges: list[float | None] = []
    for value, percent in zip(values, (50, 95, 99), strict=True):
        estimate = estimates.get(f"{name}_p{percent}_s")
        edges += (estimate.interval(around=value) if estimate and value else None) or (None, None)
    return edges


def _gil(seen: Sequence[bool | None]) -> bool | None:
    known = [value for value in seen if value is not None]
    return any(known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _median(values: Sequence[int | None]) -> int | None:
    middle = _median_of(values)
    return None if middle is None else int(middle)


def _median_of(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
