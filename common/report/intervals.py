"""Intervals and ties: what rounds that differ allow to say."""

from collections.abc import Sequence

import msgspec
import numpy as np
from scipy.special import stdtrit  # scipy.stats has it too, but takes half a second to import

CONFIDENCE = 0.95
ACCURACY = 0.02  # what the estimator of the rate is tested to: nothing smaller is called a difference


class Interval(msgspec.Struct, frozen=True):
    """A mean over rounds and its 95 % confidence interval, which one round doesn't have."""

    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def half_width(self) -> float | None:
        """As a fraction of the mean."""
        return None if self.high is None or not self.mean else (self.high - self.mean) / self.mean


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Mean and Student's t interval (Student, The probable error of a mean, Biometrika 6, 1908; quantiles by scipy)."""
    if not values:
        return None
    mean = float(np.mean(values))
    if len(values) == 1:
        return Interval(mean)
    standard_error = float(np.std(values, ddof=1)) / len(values) ** 0.5
    margin = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2)) * standard_error
    return Interval(mean, mean - margin, mean + margin)


def ratio_interval(pairs: Sequence[tuple[float, float]]) -> Interval | None:
    """The geometric mean of first ÷ second over pairs, and its interval: Student's t on the logarithms.

    Pairs come from the same round, so that what slowed down the machine in a round is in both and drops out.
    """
    logs = mean_interval([float(np.log(first / second)) for first, second in pairs if first > 0 and second > 0])
    if logs is None:
        return None
    low, high = (None if edge is None else float(np.exp(edge)) for edge in (logs.low, logs.high))
    return Interval(float(np.exp(logs.mean)), low, high)


def differs(ratio: Interval | None) -> bool:
    """Whether a ratio is more than noise: its interval leaves 1 out, and it is further from 1 than our accuracy."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return False
    return not ratio.low <= 1 <= ratio.high and abs(ratio.mean - 1) > ACCURACY


def ratio_of_means(new: Sequence[float], base: Sequence[float]) -> Interval | None:
    """New as a multiple of base where their rounds have nothing to do with each other.

    Welch's t interval on the logarithms (Welch, Biometrika 34, 1947; computed by scipy).
    """
    from scipy import stats  # takes half a second to import, and only this needs it

    logs = [np.log([value for value in values if value > 0]) for values in (new, base)]
    if not all(len(values) for values in logs):
        return None
    ratio = float(np.exp(np.mean(logs[0]) - np.mean(logs[1])))
    if any(len(values) < 2 for values in logs):
        return Interval(ratio)
    if all(np.ptp(values) == 0 for values in logs):
        return Interval(ratio, ratio, ratio)
    low, high = stats.ttest_ind(*logs, equal_var=False).confidence_interval(CONFIDENCE)
    return Interval(ratio, float(np.exp(low)), float(np.exp(high)))
