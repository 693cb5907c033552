"""Define what a metric is: a figure with a name, a unit, a direction, and a formula over the rounds of a case."""

from collections.abc import Callable
from dataclasses import dataclass

from under_siege.judge.estimates import USUAL_DEVIATION, Estimate
from under_siege.judge.measured_case import Edges, MeasuredCase
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import CorrectedRound
from under_siege.judge.units import Unit


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


def around(_: MeasuredCase, value: float, estimate: Estimate | None) -> Edges:
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
    of_streams: str = ""  # the heading if the responses are streams; empty: the same heading
    percent: float | None = None  # if it is a percentile of a latency; 100 for the longest one
    is_wide: bool = False  # whether a terminal shows the column only with --wide
    has_margin: bool = False  # whether the column shows half the width of the interval
    more_is_better: bool = False
    # Returns the values of a round, adjusted to the usual speed of the machine if possible. Most metrics have one value
    # per round. Without this function, the metric is neither compared nor ranked.
    of_round: Callable[[CorrectedRound, Round], list[float | None]] | None = None
    interval: Callable[[MeasuredCase, float, Estimate | None], Edges] = around
    # Returns the value of a round or, if it was not reached, a lower bound. If this function is set, a missing value
    # stands for a long wait, so a case has no estimate if any of its rounds lacks a value.
    at_least: Callable[[Round], float | None] | None = None
    # Returns the variance that known disturbances add to the logarithm of a round's value. If this function is set,
    # noise is assumed to come from the machine, and its variance is pooled over all cases.
    disturbance: Callable[[CorrectedRound], float] | None = None
    # Returns the variance to add if no case has a second round, which would show the noise between rounds.
    single_round: Callable[[CorrectedRound], float] | None = None
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
        return f"{self.latency}_max_s"

    @property
    def latency(self) -> str:
        """Return what a percentile or maximum is of, for example `ping` for `ping_p99_s`."""
        return self.key.removesuffix("_s").rpartition("_")[0]

    def heading(self, *, of_streams: bool) -> str:
        """Return the heading of its column."""
        return (self.of_streams if of_streams else "") or self.column

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
