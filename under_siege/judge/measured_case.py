"""Compute the values of one case from all its rounds."""

from collections.abc import Callable, Sequence
from functools import cached_property
from statistics import fmean

from under_siege.judge.estimates import Estimate, share_between
from under_siege.judge.estimators import Waits, median_of, together
from under_siege.judge.round_statistics import Round
from under_siege.judge.speed_correction import SpeedCorrection
from under_siege.judge.stream_statistics import StreamStatistics
from under_siege.judge.tool_totals import ToolTotals

Edges = tuple[float, float] | None


class MeasuredCase:
    """The rounds of a case."""

    def __init__(self, rounds: Sequence[Round], correction: SpeedCorrection) -> None:
        self.rounds, self.correction = rounds, correction

    def mean(self, value_of: Callable[[Round], float | None]) -> float | None:
        """Return the mean over the rounds with a value, or None if there is no such round."""
        known = [value for run in self.rounds if (value := value_of(run)) is not None]
        return fmean(known) if known else None

    def median(self, value_of: Callable[[Round], float | None]) -> float | None:
        """Return the median over the rounds with a value, or None if there is no such round."""
        return median_of(map(value_of, self.rounds))

    def usual_rate(self, estimate: Estimate | None) -> float | None:
        """Return the rate at the usual speed of the machine, with the center of its interval as its mean."""
        measured_per_s = self.mean(lambda run: run.rate.per_s)
        return estimate.mean if estimate and measured_per_s is not None else measured_per_s

    def around_estimate(self, _: float, estimate: Estimate | None) -> Edges:
        """Return the interval of a speed-adjusted metric."""
        return estimate.interval(self.correction.shared_variance(self.rounds)) if estimate else None

    @property
    def availability_pct(self) -> float | None:
        attempts = sum(run.attempts for run in self.rounds)
        return 100 * sum(run.completed for run in self.rounds) / attempts if attempts else None

    def availability_interval(self) -> Edges:
        low, high = share_between([run.completed for run in self.rounds], [run.attempts for run in self.rounds])
        return 100 * low, 100 * high

    def throttled_pct(self) -> float | None:
        """Return the share of the periods of a CPU quota in which it was used up, or None without a quota."""
        throttled, periods = self._periods()
        if sum(periods):
            return 100 * sum(throttled) / sum(periods)
        return 0.0 if self.rounds[0].quota else None

    def throttled_interval(self) -> Edges:
        low, high = share_between(*self._periods())
        return 100 * low, 100 * high

    def _periods(self) -> tuple[list[int], list[int]]:
        limits = [run.record.limits for run in self.rounds if run.record.limits]
        return [each.throttled_periods for each in limits], [each.periods for each in limits]

    @cached_property
    def responses(self) -> Waits:
        return together([run.responses for run in self.rounds])

    @cached_property
    def pings(self) -> Waits:
        return together([run.pings for run in self.rounds])

    def of_streams(self, samples_of: Callable[[StreamStatistics], Waits]) -> Waits:
        """Return samples of the streams of all rounds; there are none if the responses are no streams."""
        return together([samples_of(run.streams) for run in self.rounds if run.streams])

    @property
    def _bursts(self) -> list[ToolTotals]:
        return [run.totals for run in self.rounds if run.totals]

    def response_s(self, percent: float) -> float | None:
        """Return a percentile of all responses or, if the tool reports only percentiles, their median over bursts."""
        if bursts := self._bursts:
            return median_of(burst.percentile(percent) for burst in bursts)
        return self.responses.percentile(percent)

    def longest_response_s(self) -> float | None:
        if bursts := self._bursts:
            return max(burst.longest_s for burst in bursts) if self.response_s(50) is not None else None
        return self.responses.longest_s()

    def memory_bytes(self) -> int | None:
        size_bytes = self.median(Round.memory_bytes)
        return None if size_bytes is None else int(size_bytes)

    def workers(self) -> int | None:
        """Return the number of workers that the server reported or, if it reported none, that it was started with."""
        given = self.rounds[0].case.get("workers")
        return self.rounds[0].record.workers or (given if isinstance(given, int) else None)
