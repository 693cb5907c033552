"""Define the metrics in one table: what each is called, how it is computed, and how it is shown.

Columns, CSV and JSON keys, requirements, capacity goals, sweep charts, claims of the lesson and comparisons refer to
this table. The tables in docs/reading.md are generated from it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from under_siege import formatting
from under_siege.judge.estimates import USUAL_DEVIATION, Estimate, share_between
from under_siege.judge.round_statistics import CensoredSamples, Round, together
from under_siege.judge.speed_correction import SpeedCorrection
from under_siege.judge.steady_rate import median_of
from under_siege.record.record import Drain

PING_TOLERANCE_S = 0.020


class Unit(NamedTuple):
    """A unit of metrics."""

    factors: Mapping[str, float]  # its names in requirements, with the factor to the unit of the stored value
    text: Callable[[float], str]  # format for tables
    exact: Callable[[float], str]  # format for a value beside its limit, with enough digits to compare the two
    suffix: str = ""  # what sentences add to `text`
    chart_factor: float = 1.0  # from the unit of the stored value to that of a chart's axis


def _exact_seconds(value: float) -> str:
    significant = formatting.significant
    return f"{significant(1000 * value)} ms" if value < 0.9995 else f"{significant(value)} s"


def _exact_percent(value: float) -> str:
    """Format a percentage, rounded down, with enough decimal places to show its leading nines."""
    if value >= 100:
        return "100 %"
    digits = max(2, 1 - math.floor(math.log10(100 - value)))
    return f"{math.floor(value * 10**digits) / 10**digits:.{digits}f} %"


def exact_share(value: float) -> str:
    return f"{formatting.significant(100 * value)} %"


SHARES = {"%": 0.01, "": 1.0}
TIME = Unit(
    {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0},
    formatting.seconds,
    _exact_seconds,
    chart_factor=1000,
)
RATE = Unit(
    {"/s": 1.0, "/min": 1 / 60, "": 1.0},
    formatting.rate,
    lambda value: f"{formatting.significant(value)}/s",
    suffix="/s",
)
SHARE = Unit(SHARES, formatting.share, exact_share)
PERCENT = Unit({"%": 1.0, "": 100.0}, formatting.percent, _exact_percent)
SIZE = Unit(
    {"b": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30},
    formatting.megabytes,
    lambda value: f"{formatting.significant(value / 1e6)} MB",
    chart_factor=1e-6,
)
COUNT = Unit({"": 1.0}, "{:,.0f}".format, "{:,g}".format)


@dataclass(frozen=True, slots=True)
class MetricValue:
    """The value of a metric for one case, and its 95 % confidence interval if there is one."""

    value: float | None  # None if only an interval is known, for example because a percentile was not reached
    low: float | None = None
    high: float | None = None  # infinite if unbounded

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)


class MeasuredCase:
    """The rounds of a case, from which formulas compute its metrics."""

    def __init__(self, rounds: Sequence[Round], correction: SpeedCorrection) -> None:
        self.rounds, self.correction = rounds, correction

    def mean(self, value_of: Callable[[Round], float | None]) -> float | None:
        """Return the mean over the rounds with a value, or None if there is no such round."""
        known = [value for run in self.rounds if (value := value_of(run)) is not None]
        return fmean(known) if known else None

    @cached_property
    def responses(self) -> CensoredSamples:
        return together([run.responses for run in self.rounds])

    @property
    def drains(self) -> list[Drain]:
        """Return what the server still did after each load, if the bench waited for it."""
        return [run.record.drain for run in self.rounds if run.record.drain]

    @cached_property
    def pings(self) -> CensoredSamples:
        return together([run.pings for run in self.rounds])


Formula = Callable[[MeasuredCase, Estimate | None], float | None]
Interval = tuple[float, float] | None


def _around(_: MeasuredCase, value: float, estimate: Estimate | None) -> Interval:
    return estimate.interval(around=value) if estimate and value else None


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. Times, rates, shares and sizes are stored in s, 1/s, 1 and bytes."""

    key: str  # in results, CSV and JSON
    unit: Unit
    of_case: Formula  # the value that tables show, from all rounds of a case and the estimate of its mean
    meaning: str = ""  # the meaning of its column, for docs/reading.md
    name: str = ""  # in requirements, goals, claims and sentences; empty if it can't be required
    column: str = ""  # heading of its column; empty if tables lack it
    in_terminal: str = ""  # heading of one or two lines; if the first is empty, that of the previous column applies
    title: str = ""  # the heading without abbreviations; empty if it has none
    percent: float | None = None  # if it is a percentile of a latency; 100 for the longest one
    is_wide: bool = False  # whether a terminal shows the column only with --wide
    has_margin: bool = False  # whether the column shows half the width of the interval
    more_is_better: bool = False
    # Returns the values of a round, adjusted to the usual speed of the machine if possible. Most metrics have one value
    # per round. Without this function, the metric is neither compared nor ranked.
    of_round: Callable[[SpeedCorrection, Round], list[float | None]] | None = None
    interval: Callable[[MeasuredCase, float, Estimate | None], Interval] = _around
    # Returns the value of a round or, if it was not reached, a lower bound. If this function is set, a missing value
    # stands for a long wait, so a case has no estimate if any of its rounds lacks a value.
    at_least: Callable[[Round], float | None] | None = None
    # Returns the variance that known disturbances add to the logarithm of a round's value. If this function is set,
    # noise is assumed to come from the machine, and its variance is pooled over all cases.
    disturbance: Callable[[SpeedCorrection, Round], float] | None = None
    # Returns the variance to add if no case has a second round, which would show the noise between rounds.
    single_round: Callable[[SpeedCorrection, Round], float] | None = None
    # Added to all values when cases are compared, because users don't notice smaller differences, and because the noise
    # of pings is a delay rather than a factor.
    tolerance: float = 0.0
    usual_deviation: float = USUAL_DEVIATION  # standard deviation of its logarithm between rounds, as in `pooled`
    needs_process: bool = False  # whether it is unknown for a server that the bench did not start
    is_compared: bool = False  # whether `compare` shows how it changed
    chart_name: str = ""  # first part of the file name of its chart along an axis; empty if there is no such chart
    chart_title: str = ""  # title of the vertical axis
    is_logarithmic: bool = False  # whether this axis is logarithmic
    is_on_page: bool = False  # whether the page shows the chart; `report --picture` draws it, too

    @property
    def is_latency(self) -> bool:
        return self.at_least is not None

    @property
    def longest_key(self) -> str:
        """Return the key of the longest latency of the same kind, for example `ping_max_s` for `ping_p99_s`."""
        return f"{self.key.partition('_')[0]}_max_s"

    def measured(self, case: MeasuredCase, estimate: Estimate | None) -> MetricValue | None:
        """Return the value of a case and its interval, or None if the case has no such metric."""
        value, at_least = self.of_case(case, estimate), self.at_least
        if value is not None:
            return MetricValue(value, *(self.interval(case, value, estimate) or ()))
        is_unreached = at_least is not None and any(at_least(run) is not None for run in case.rounds)
        return MetricValue(None) if is_unreached else None

    def text(self, value: float) -> str:
        """Format a value for a sentence."""
        return f"{self.unit.text(value)}{self.unit.suffix}"


def _usual_rate(case: MeasuredCase, estimate: Estimate | None) -> float | None:
    """Return the rate at the usual speed of the machine or, if the rate was not adjusted, as measured."""
    is_corrected = estimate is not None and case.correction.coefficient(case.rounds[0]) != 0
    measured_per_s = case.mean(lambda run: run.rate.per_s)
    return estimate.mean if estimate and is_corrected and measured_per_s is not None else measured_per_s


def _around_estimate(case: MeasuredCase, _: float, estimate: Estimate | None) -> Interval:
    return estimate.interval(case.correction.shared_variance(case.rounds)) if estimate else None


def _availability(case: MeasuredCase, _: Estimate | None) -> float | None:
    attempts = sum(run.attempts for run in case.rounds)
    return 100 * sum(run.completed for run in case.rounds) / attempts if attempts else None


def _share_of_attempts(case: MeasuredCase, *_: object) -> Interval:
    low, high = share_between([run.completed for run in case.rounds], [run.attempts for run in case.rounds])
    return 100 * low, 100 * high


def _response_percentile(case: MeasuredCase, percent: float) -> float | None:
    """Return a percentile of all responses or, if the tool reports only percentiles, their median over the bursts."""
    if bursts := [run.totals for run in case.rounds if run.totals]:
        return median_of(burst.percentile(percent) for burst in bursts)
    return case.responses.percentile(percent)


def _longest_response(case: MeasuredCase, _: Estimate | None) -> float | None:
    if bursts := [run.totals for run in case.rounds if run.totals]:
        return max(burst.longest_s for burst in bursts) if _response_percentile(case, 50) is not None else None
    return _longest(case.responses)


def _longest(waits: CensoredSamples) -> float | None:
    return waits.seen_up_to_s() if len(waits.waited_s) else None


def _and_longer(_: MeasuredCase, value: float, __: Estimate | None) -> Interval:
    """Return the interval of a maximum, because later requests may take longer."""
    return value, math.inf


def _response(percent: int, meaning: str, **shown: Any) -> Metric:
    def at_least(run: Round) -> float | None:
        if run.totals:
            return run.totals.percentile(percent)
        return run.responses.percentile(percent) or _longest(run.responses)

    return Metric(
        f"response_p{percent}_s",
        TIME,
        lambda case, _: _response_percentile(case, percent),
        meaning,
        f"p{percent}",
        percent=percent,
        of_round=lambda correction, run: [correction.response_s(run, run.response_s(percent))],
        at_least=at_least,
        **shown,
    )


def _ping(percent: int, meaning: str, **shown: Any) -> Metric:
    """Return a metric with one value for each half of a siege, because there are many pings but few rounds."""
    return Metric(
        f"ping_p{percent}_s",
        TIME,
        lambda case, _: case.pings.percentile(percent),
        meaning,
        f"ping p{percent}",
        percent=percent,
        of_round=lambda _, run: [half.percentile(percent) for half in run.halves_of_pings],
        at_least=lambda run: run.pings.percentile(percent) or _longest(run.pings),
        tolerance=PING_TOLERANCE_S,
        usual_deviation=0.25,  # of the logarithm of 20 ms and the latency, in recorded runs
        **shown,
    )


def _memory(case: MeasuredCase, _: Estimate | None) -> float | None:
    size_bytes = median_of(run.memory_bytes() for run in case.rounds)
    return None if size_bytes is None else int(size_bytes)


def _workers(case: MeasuredCase, _: Estimate | None) -> float | None:
    """Return the number of workers that the server reported or, if it reported none, that it was started with."""
    given = case.rounds[0].case.get("workers")
    return case.rounds[0].record.workers or (given if isinstance(given, int) else None)


_LOWER_BOUND = (
    'A text such as "> 4.00 s" is only a lower bound, because too few requests were answered before the siege ended.'
)
_PINGS = "Pings are trivial requests, sent to the same server 20 times a second under load."

_ROWS = (
    Metric(
        "rate_per_s",
        RATE,
        _usual_rate,
        "Transactions per second (siege's transaction rate): correct responses per second ± half the width of the "
        "95 % confidence interval. If the CPU speed changed, this is the rate at the mean speed of this run, also "
        "corrected for CPU time lost to noisy neighbours and other programs.",
        "rate",
        "trans/s",
        title="transactions per second",
        has_margin=True,
        more_is_better=True,
        of_round=lambda correction, run: [correction.rate(run)],
        interval=_around_estimate,
        disturbance=SpeedCorrection.rate_variance,
        single_round=SpeedCorrection.single_round_variance,
        is_compared=True,
        chart_name="rate",
        chart_title="responses per second, speed-adjusted",
        is_on_page=True,
    ),
    Metric(
        "of_ceiling",
        SHARE,
        lambda _, estimate: estimate.mean if estimate else None,
        "Transactions per second as a share of the ceiling, the rate that the same load reaches without a server.",
        "of ceiling",
        "of ceiling",
        "of\nceiling",
        more_is_better=True,
    ),
    Metric(
        "availability_pct",
        PERCENT,
        _availability,
        "The share of all requests that got a correct response.",
        "availability",
        "availability",
        "avail-\nability",
        more_is_better=True,
        interval=_share_of_attempts,
    ),
    _response(
        50,
        f"Half of all requests for the task took no longer than this. {_LOWER_BOUND}",
        column="response p50",
        in_terminal="response\np50",
    ),
    _response(95, ""),
    _response(
        99,
        f"99 of 100 requests for the task took no longer than this. {_LOWER_BOUND}",
        column="response p99",
        in_terminal="\np99",
        chart_name="p99",
        chart_title="response, 99th percentile",
        is_logarithmic=True,
        is_on_page=True,
    ),
    Metric("response_max_s", TIME, _longest_response, name="max", percent=100, interval=_and_longer),
    _ping(
        50,
        f"Half of all pings took no longer than this. {_PINGS}",
        column="ping p50",
        in_terminal="ping\np50",
        is_wide=True,
    ),
    _ping(95, ""),
    _ping(
        99,
        f"99 of 100 pings took no longer than this. {_PINGS}",
        column="ping p99",
        in_terminal="ping\np99",
        is_compared=True,
        chart_name="ping",
        chart_title="ping, 99th percentile",
        is_logarithmic=True,
        is_on_page=True,
    ),
    Metric(
        "ping_max_s", TIME, lambda case, _: _longest(case.pings), name="ping max", percent=100, interval=_and_longer
    ),
    Metric(
        "memory_bytes",
        SIZE,
        _memory,
        "Peak memory of the server and all its processes. PSS (proportional set size) counts shared pages only once.",
        "memory",
        "memory",
        of_round=lambda _, run: [run.memory_bytes()],
        needs_process=True,
        is_compared=True,
        chart_name="memory",
        chart_title="memory, megabytes",
    ),
    Metric(
        "workers",
        COUNT,
        _workers,
        "How many tasks can be in progress at the same time, for example one in each thread or process. They can't "
        "always compute at the same moment: threads of one Python process take turns.",
        column="workers",
        is_wide=True,
    ),
    Metric(
        "cpu_s_per_transaction",
        TIME,
        lambda case, _: case.mean(Round.cpu_s_per_transaction),
        "CPU time of the server and all its processes for each correct response, as measured. On faster CPUs it is "
        "lower.",
        "cpu",
        "CPU per trans",
        "CPU per\ntrans",
        title="CPU per transaction",
        is_wide=True,
        of_round=lambda correction, run: [correction.cpu_s(run)],
        disturbance=SpeedCorrection.cpu_variance,
        needs_process=True,
        is_compared=True,
        chart_name="cpu",
        chart_title="CPU per response, milliseconds",
    ),
    Metric(
        "rate_as_measured_per_s",
        RATE,
        lambda case, _: case.mean(lambda run: run.rate.per_s),
        "Transactions per second without any adjustment for the speed of the CPUs.",
        column="as measured",
        in_terminal="as\nmeasured",
        is_wide=True,
        more_is_better=True,
    ),
    Metric(
        "speed",
        SHARE,
        lambda case, _: case.mean(case.correction.speed),
        "CPU speed while this case was measured, compared with its mean over this run.",
        column="speed",
        is_wide=True,
    ),
    Metric(
        "ready_s",
        TIME,
        lambda case, _: median_of(run.record.ready_s for run in case.rounds),
        "Time from the start of the server to its first correct response to a ping.",
        column="ready",
        in_terminal="ready\nafter",
        is_wide=True,
    ),
    Metric("backlog", COUNT, lambda case, _: median_of(drain.backlog for drain in case.drains)),
    Metric("drain_s", TIME, lambda case, _: median_of(drain.lasted_s for drain in case.drains)),
)
METRICS = {metric.key: metric for metric in _ROWS}  # in the order of the columns
ESTIMATED = tuple(metric for metric in _ROWS if metric.of_round)
SPEED_CORRECTED = tuple(metric.key for metric in _ROWS if metric.disturbance)
