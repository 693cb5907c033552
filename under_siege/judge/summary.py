"""Summarize a case with statistics over all its rounds, computed from the raw values."""

from collections.abc import Sequence
from statistics import fmean

import msgspec

from under_siege.judge.estimates import Estimate
from under_siege.judge.round_statistics import CensoredSamples, Round, together
from under_siege.judge.speed_correction import SpeedCorrection
from under_siege.judge.steady_rate import median_of
from under_siege.judge.suspicions import Evidence
from under_siege.judge.verdict_rules import FAILED, OK, CaseEstimates, Reason, judge, verdict_of
from under_siege.record.case import Case, Value, case_of

PERCENTS = (50, 95, 99)


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
    rate_per_s: Interval | None = None  # the mean is as measured; the interval is speed-adjusted
    rate_at_usual_speed_per_s: float | None = None  # the speed-adjusted mean; None if the rate was not adjusted
    ceiling_per_s: float | None = None
    of_ceiling: Interval | None = None
    availability_pct: float | None = None
    transactions: int = 0
    response_s: Latency | None = None
    ping_s: Latency | None = None
    cpu_s_per_transaction: float | None = None
    ready_s: float | None = None  # time to the first correct response to a ping
    memory_bytes: int | None = None
    memory_kind: str = ""
    speed: Speed | None = None
    rank: int | None = None
    best: list[str] = []  # metrics in which this case is not significantly worse than the best, but other cases are

    @property
    def case(self) -> Case:
        values = {"task": self.task or None, "users": self.users or None, "python": self.python or None}
        return case_of(self.server, {**values, **self.parameters})

    @property
    def usual_rate_per_s(self) -> float:
        """Return the rate, speed-adjusted if possible, or 0 if there is no rate."""
        return 0.0 if self.rate_per_s is None else self.rate_at_usual_speed_per_s or self.rate_per_s.mean

    def as_measured(self, figure: str) -> float | None:
        """Return a metric as measured, without speed adjustment."""
        if figure != "rate_per_s":
            return self.shown(figure)
        return None if self.rate_per_s is None else self.rate_per_s.mean

    def shown(self, figure: str) -> float | None:
        """Return a metric as tables show it; only the rate is speed-adjusted."""
        if figure == "rate_per_s":
            return self.usual_rate_per_s or None
        kind, _, percentile = figure.removesuffix("_s").partition("_")
        if kind in ("response", "ping"):
            latency = self.response_s if kind == "response" else self.ping_s
            return None if latency is None else getattr(latency, percentile)
        value: float | None = getattr(self, figure)
        return value


def summary_of(
    rounds: Sequence[Round], estimates: CaseEstimates, correction: SpeedCorrection, evidence: Evidence
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
        ceiling_per_s=_mean([run.ceiling.rate.per_s for run in rounds if run.ceiling]),
        transactions=sum(run.completed for run in rounds),
        speed=_speed(rounds, correction),
    )
    return summary if summary.verdict == FAILED else _with_numbers(summary, rounds, estimates, correction)


def _with_numbers(
    summary: Summary, rounds: Sequence[Round], estimates: CaseEstimates, correction: SpeedCorrection
) -> Summary:
    attempts = sum(run.attempts for run in rounds)
    measured_per_s = _mean([run.rate.per_s for run in rounds])
    rate, share = estimates.get("rate_per_s"), estimates.get("of_ceiling")
    is_corrected = measured_per_s is not None and correction.coefficient(rounds[0]) != 0
    memory_bytes = median_of(run.memory_bytes() for run in rounds)
    return msgspec.structs.replace(
        summary,
        rate_per_s=_interval(measured_per_s, rate, correction.shared_variance(rounds)),
        rate_at_usual_speed_per_s=rate.mean if rate and is_corrected else None,
        of_ceiling=_interval(share.mean, share) if share else None,
        availability_pct=100 * summary.transactions / attempts if attempts else None,
        response_s=_response(rounds, estimates),
        ping_s=_latency([run.pings for run in rounds], "ping", estimates),
        cpu_s_per_transaction=_mean([run.cpu_s_per_transaction() for run in rounds]),
        ready_s=median_of(run.record.ready_s for run in rounds),
        memory_bytes=None if memory_bytes is None else int(memory_bytes),
        memory_kind=next(filter(None, (run.record.memory_kind for run in rounds)), ""),
    )


def half_width(summary: Summary) -> float | None:
    """Return half the width of the interval of the rate, in transactions per second."""
    rate = summary.rate_per_s
    return None if rate is None or rate.high is None or rate.low is None else (rate.high - rate.low) / 2


def _interval(mean: float | None, estimate: Estimate | None, besides: float = 0.0) -> Interval | None:
    edges = estimate.interval(besides) if estimate else None
    return None if mean is None else Interval(mean, *(edges or ()))


def _speed(rounds: Sequence[Round], correction: SpeedCorrection) -> Speed | None:
    mean = _mean([correction.speed(run) for run in rounds])
    extremes = [extreme for run in rounds if (extreme := correction.lowest_and_highest(run)) is not None]
    if mean is None or not extremes:
        return None
    return Speed(mean, min(low for low, _ in extremes), max(high for _, high in extremes))


def _response(rounds: Sequence[Round], estimates: CaseEstimates) -> Latency | None:
    """Return the latency of all responses or, if the tool reports only percentiles, their medians over the bursts."""
    bursts = [run.totals for run in rounds if run.totals]
    if not bursts:
        return _latency([run.responses for run in rounds], "response", estimates)
    p50, p95, p99 = (median_of(burst.percentile(percent) for burst in bursts) for percent in PERCENTS)
    if p50 is None:
        return None
    longest_s = max(burst.longest_s for burst in bursts)
    return Latency(p50, p95, p99, longest_s, *_edges((p50, p95, p99), "response", estimates))


def _latency(several: Sequence[CensoredSamples], name: str, estimates: CaseEstimates) -> Latency | None:
    waits = together(several)
    if not len(waits.waited_s):
        return None
    p50, p95, p99 = map(waits.percentile, PERCENTS)
    return Latency(p50, p95, p99, waits.seen_up_to_s(), *_edges((p50, p95, p99), name, estimates))


def _edges(values: Sequence[float | None], name: str, estimates: CaseEstimates) -> list[float | None]:
    """Return the lower and upper bound of each percentile in one list, with None for unknown bounds."""
    edges: list[float | None] = []
    for value, percent in zip(values, PERCENTS, strict=True):
        estimate = estimates.get(f"{name}_p{percent}_s")
        edges += (estimate.interval(around=value) if estimate and value else None) or (None, None)
    return edges


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
