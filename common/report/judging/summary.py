"""The summary of a case: statistics over all its rounds, computed from the raw values whenever they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from common.model.case import Case, Value, case_of
from common.model.record import Result
from common.report.figures.estimates import CONFIDENCE, CONFIDENCE_OF_LOOKS, Estimate
from common.report.figures.measures import MEASURES, Measured
from common.report.figures.rounds import Round, cases_of
from common.report.figures.survival import Waits, together
from common.report.figures.weather import Weather
from common.report.judging.evidence import Evidence
from common.report.judging.ranking import leaders, ranks
from common.report.judging.rules import FAILED, OK, Reason, judge, verdict_of


class Interval(msgspec.Struct, frozen=True):
    """A mean over rounds and its 95 % confidence interval, which one round doesn't have."""

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
    memory_bytes: int | None = None
    memory_kind: str = ""
    speed: Speed | None = None
    rank: int | None = None
    best: list[str] = []  # the figures in which nothing beats it, and something is beaten

    @property
    def case(self) -> Case:
        """What was measured."""
        values = {"task": self.task or None, "users": self.users or None, "python": self.python or None}
        return case_of(self.server, {**values, **self.parameters})


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that a result says: the cases, and their ceilings."""

    cases: list[Summary]
    ceilings: list[Summary]
    rounds: list[list[Round]]  # of each of `cases`
    ceiling_rounds: list[list[Round]]  # of each of `ceilings`
    measured: dict[str, list[Estimate | None]]  # of each of `cases`, as `MEASURES` calls them
    weather: Weather
    evidence: Evidence

    def every_round(self) -> list[Round]:
        """Case by case, the ceilings first."""
        return [one for case in (*self.ceiling_rounds, *self.rounds) for one in case]

    def rounds_of(self, work: object) -> list[Round]:
        """All in which an answer takes the same."""
        return [one for one in self.every_round() if one.case.work == work]

    def summary_of_one(self, one: Round) -> Summary:
        """A round on its own, judged in the light of all."""
        return _summary([one], {}, self.weather, self.evidence)


def summarize(result: Result, *, corrected: bool = True) -> Comparison:
    """The summary of every case, in the order of the servers' numbers.

    Args:
        corrected: whether intervals, ranks and shares of the ceiling are given at the machine's usual speed.
    """
    found = [(list(case), is_ceiling) for case, is_ceiling in cases_of(result.records)]
    return _compared(found, corrected, CONFIDENCE_OF_LOOKS if result.until_certain else CONFIDENCE)


def _compared(found: Sequence[tuple[list[Round], bool]], corrected: bool, confidence: float) -> Comparison:
    everything = [case for case, _ in found]
    weather = Weather(everything, corrected=corrected)
    measured = Measured(everything, weather, confidence)
    evidence = Evidence(everything, weather, measured.estimates["rate_per_s"])
    summaries = [_summary(case, measured.of_case(place), weather, evidence) for place, case in enumerate(everything)]
    servers = [place for place, (_, is_ceiling) in enumerate(found) if not is_ceiling]
    of_servers = measured.of(servers)
    cases = _ranked([summaries[place] for place in servers], of_servers)
    return Comparison(
        cases,
        [summary for summary, (_, is_ceiling) in zip(summaries, found, strict=True) if is_ceiling],
        [everything[place] for place in servers],
        [case for case, is_ceiling in found if is_ceiling],
        of_servers,
        weather,
        evidence,
    )


def _ranked(cases: Sequence[Summary], measured: dict[str, list[Estimate | None]]) -> list[Summary]:
    loads = [one.case.load if one.verdict == OK else None for one in cases]
    found = ranks(loads, measured["rate_per_s"])
    best = {name: leaders(loads, measured[name], MEASURES[name]) for name in MEASURES}
    best["rate_per_s"] = [of_case and rank == 1 for of_case, rank in zip(best["rate_per_s"], found, strict=True)]
    return [
        msgspec.structs.replace(case, rank=found[place], best=[name for name in MEASURES if best[name][place]])
        for place, case in enumerate(cases)
    ]


def _summary(
    rounds: Sequence[Round], estimates: dict[str, Estimate | None], weather: Weather, evidence: Evidence
) -> Summary:
    """What so many rounds of one case say; without a rank, which only a comparison gives."""
    first, case = rounds[0].record, rounds[0].case
    reasons = judge(rounds, evidence)
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
        verdict=verdict_of(reasons),
        reasons=reasons,
        ceiling_per_s=_mean([one.ceiling.rate.per_s for one in rounds if one.ceiling]),
        transactions=sum(one.completed for one in rounds),
        speed=_speed(rounds, weather),
    )
    return identity if identity.verdict == FAILED else _with_numbers(identity, rounds, estimates, weather)


def _with_numbers(
    summary: Summary, rounds: Sequence[Round], estimates: dict[str, Estimate | None], weather: Weather
) -> Summary:
    attempts = sum(one.attempts for one in rounds)
    rate, at_usual_speed = _rate(rounds, estimates.get("rate_per_s"), weather)
    return msgspec.structs.replace(
        summary,
        rate_per_s=rate,
        rate_at_usual_speed_per_s=at_usual_speed,
        of_ceiling=_of_ceiling(rounds, estimates.get("of_ceiling"), weather),
        availability_pct=100 * summary.transactions / attempts if attempts else None,
        response_s=_latency([one.responses for one in rounds], "response", estimates),
        ping_s=_latency([one.pings for one in rounds], "ping", estimates),
        cpu_s_per_transaction=_mean([one.cpu_s_per_transaction() for one in rounds]),
        memory_bytes=_median([one.memory_bytes() for one in rounds]),
        memory_kind=next((one.record.memory_kind for one in rounds if one.record.memory_kind), ""),
    )


def _rate(rounds: Sequence[Round], estimate: Estimate | None, weather: Weather) -> tuple[Interval | None, float | None]:
    """The rate with its interval, and what it would be at the usual speed, if it was corrected for that."""
    mean = _mean([one.rate.per_s for one in rounds])
    if mean is None:
        return None, None
    at_usual_speed = _mean([weather.rate(one) for one in rounds]) if weather.coefficient(rounds[0]) else None
    edges = estimate.interval(besides=weather.variance_of_rate(rounds)) if estimate else None
    return Interval(mean, *(edges or ())), at_usual_speed


def _of_ceiling(rounds: Sequence[Round], estimate: Estimate | None, weather: Weather) -> Interval | None:
    mean = _mean([weather.of_ceiling(one) for one in rounds])
    if mean is None:
        return None
    edges = estimate.interval(besides=weather.variance_of_share(rounds)) if estimate else None
    return Interval(mean, *(edges or ()))


def _speed(rounds: Sequence[Round], weather: Weather) -> Speed | None:
    mean = _mean([weather.speed(one) for one in rounds])
    extremes = [extreme for one in rounds if (extreme := weather.lowest_and_highest(one)) is not None]
    if mean is None or not extremes:
        return None
    return Speed(mean, min(low for low, _ in extremes), max(high for _, high in extremes))


def _latency(several: Sequence[Waits], name: str, estimates: dict[str, Estimate | None]) -> Latency | None:
    waits = together(several)
    if not len(waits.waited_s):
        return None
    p50, p95, p99 = (waits.percentile(percent) for percent in (50, 95, 99))
    edges: list[float | None] = []
    for value, measure in ((p50, f"{name}_p50_s"), (p99, f"{name}_p99_s")):
        estimate = estimates.get(measure)
        edges += (estimate.interval(around=value) if estimate and value else None) or (None, None)
    return Latency(p50, p95, p99, waits.seen_up_to_s(), *edges)


def _gil(seen: Sequence[bool | None]) -> bool | None:
    known = [value for value in seen if value is not None]
    return any(known) if known else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _median(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return int(np.median(known)) if known else None
