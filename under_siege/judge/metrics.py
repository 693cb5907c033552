"""Define the metrics in one table: what each is called, how it is computed, and how it is shown.

Columns, CSV and JSON keys, requirements, capacity goals, sweep charts, claims of the lesson and comparisons refer to
this table. The tables in docs/reading.md are generated from it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from under_siege import formatting
from under_siege.judge.estimates import USUAL_DEVIATION, Estimate
from under_siege.judge.measured_case import Edges, MeasuredCase
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import SpeedCorrection
from under_siege.judge.units import COUNT, PERCENT, RATE, SHARE, SIZE, TIME, Unit

PING_TOLERANCE_S = 0.020


@dataclass(frozen=True, slots=True)
class MetricValue:
    """The value of a metric for one case, and its 95 % confidence interval if there is one."""

    value: float | None  # None if only an interval is known, for example because a percentile was not reached
    low: float | None = None
    high: float | None = None  # infinite if unbounded

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)


Formula = Callable[[MeasuredCase, Estimate | None], float | None]


def _around(_: MeasuredCase, value: float, estimate: Estimate | None) -> Edges:
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
    interval: Callable[[MeasuredCase, float, Estimate | None], Edges] = _around
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


def _response(percent: int, meaning: str, **shown: Any) -> Metric:
    def at_least(run: Round) -> float | None:
        if run.totals:
            return run.totals.percentile(percent)
        return run.responses.percentile(percent) or run.responses.longest_s()

    return Metric(
        f"response_p{percent}_s",
        TIME,
        lambda case, _: case.response_s(percent),
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
        at_least=lambda run: run.pings.percentile(percent) or run.pings.longest_s(),
        tolerance=PING_TOLERANCE_S,
        usual_deviation=0.25,  # of the logarithm of 20 ms and the latency, in recorded runs
        **shown,
    )


def _longest(key: str, name: str, longest_s: Callable[[MeasuredCase], float | None]) -> Metric:
    """Return a metric whose interval has no upper end, because later requests may take longer."""
    return Metric(
        key,
        TIME,
        lambda case, _: longest_s(case),
        name=name,
        percent=100,
        interval=lambda _, value, __: (value, math.inf),
    )


_LOWER_BOUND = (
    'A text such as "> 4.00 s" is only a lower bound, because too few requests were answered before the siege ended.'
)
_PINGS = "Pings are trivial requests, sent to the same server 20 times a second under load."

_ROWS = (
    Metric(
        "rate_per_s",
        RATE,
        MeasuredCase.usual_rate,
        "Transactions per second (siege's transaction rate): correct responses per second ± half the width of the "
        "95 % confidence interval. If the CPU speed changed, this is the rate at the mean speed of this run, also "
        "corrected for CPU time lost to noisy neighbours and other programs.",
        "rate",
        "trans/s",
        title="transactions per second",
        has_margin=True,
        more_is_better=True,
        of_round=lambda correction, run: [correction.rate(run)],
        interval=MeasuredCase.around_estimate,
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
        lambda case, _: case.availability_pct,
        "The share of all requests that got a correct response.",
        "availability",
        "availability",
        "avail-\nability",
        more_is_better=True,
        interval=lambda case, *_: case.availability_interval(),
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
    _longest("response_max_s", "max", MeasuredCase.longest_response_s),
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
    _longest("ping_max_s", "ping max", lambda case: case.pings.longest_s()),
    Metric(
        "memory_bytes",
        SIZE,
        lambda case, _: case.memory_bytes(),
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
        "throttled_pct",
        PERCENT._replace(text=lambda value: formatting.share(value / 100)),
        lambda case, _: case.throttled_pct(),
        "With `--cpus` or in a container: the share of the quota's periods (100 ms each) in which the server used up "
        "its CPU quota and had to wait for the next period.",
        "throttled",
        "throttled",
        is_wide=True,
        interval=lambda case, *_: case.throttled_interval(),
        chart_name="throttled",
        chart_title="periods with throttling, percent",
    ),
    Metric(
        "of_quota",
        SHARE,
        lambda case, _: case.mean(lambda run: used / run.quota if run.quota and (used := run.cpus_used()) else None),
        "CPU time of the server as a share of its quota.",
        column="of quota",
        is_wide=True,
    ),
    Metric(
        "of_memory_limit",
        SHARE,
        lambda case, _: case.mean(Round.of_memory_limit),
        "Peak memory as a share of the memory limit. It includes the page cache, which the kernel frees if necessary.",
        "memory used",
        "of memory limit",
        in_terminal="of\nlimit",
        is_wide=True,
        of_round=lambda _, run: [run.of_memory_limit()],
    ),
    Metric(
        "workers",
        COUNT,
        lambda case, _: case.workers(),
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
        lambda case, _: case.median(lambda run: run.record.ready_s),
        "Time from the start of the server to its first correct response to a ping.",
        column="ready",
        in_terminal="ready\nafter",
        is_wide=True,
    ),
    Metric(
        "backlog",
        COUNT,
        lambda case, _: case.backlog(),
    ),
    Metric(
        "drain_s",
        TIME,
        lambda case, _: case.drain_s(),
    ),
)
METRICS = {metric.key: metric for metric in _ROWS}  # in the order of the columns
ESTIMATED = tuple(metric for metric in _ROWS if metric.of_round)
SPEED_CORRECTED = tuple(metric.key for metric in _ROWS if metric.disturbance)
