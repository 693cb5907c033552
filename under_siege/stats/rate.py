"""The transaction rate of a closed loop, from when its answers came.

Why it is not simply answers ÷ time: siege drops what is in flight at the end, so the last wait of every user
would count as time without work; the first answers come before the queue has its final length; and users that
start together finish together, so that counting from the first answer to the last one counts a burst too many.
"""

from dataclasses import dataclass

import numpy as np

from under_siege.stats.regression import line_through
from under_siege.stats.request_spans import NONE, Floats, Spans

SETTLED_USERS = 0.9  # of the users have to have had an answer before the steady part begins
LEAST_CYCLES = 1.5  # of request and answer, on the average user, in a steady part whose shares tell the rate
FEWEST_ANSWERS = 4  # that a line is drawn through
# So many answers may be missing or too many at any moment, compared with the line, or this part of all of them.
FEW_OFF_LINE, PART_OFF_LINE = 3, 0.04


@dataclass(frozen=True, slots=True)
class SteadyRate:
    """The rate over the steady part of a siege, or None and the reason why it can't be told."""

    per_s: float | None
    from_s: float  # where the steady part begins
    evenly: bool = False  # whether its answers came one after the other, and not in bursts
    too_short: str = ""


def steady_rate(spans: Spans, users: int, end_s: float, besides: Spans = NONE) -> SteadyRate:
    """Good answers per second over the steady part of a closed loop without delay.

    The steady part begins when nine of ten users have had an answer. Where the answers come evenly there, the rate is
    the slope of the least-squares line through them. Where they come in bursts or with pauses, each request counts
    with the share of its duration that lies inside, and those in flight at the end with the share that they may be
    expected to have had: in the long run that is the rate, whatever the durations (for a renewal process the mean of
    1/duration over time is 1/mean duration: Cox, Renewal Theory, 1962, § 5). Where the siege was too short for that,
    the line through all answers has to do, or nothing.

    Args:
        spans: the requests of each user, as `spans_of` gives them.
        users: how many users there were, with those that never had an answer.
        end_s: when the siege ended.
        besides: requests that came from outside of the loop, each of them known to its end.
    """
    settled_s = _settled_s(spans, users)
    ended = np.concatenate((spans.ended_s[spans.good], besides.ended_s[besides.good]))
    answers = np.sort(ended[ended <= end_s])
    steady = answers[answers >= settled_s]
    mostly_steady = len(steady) >= max(FEWEST_ANSWERS, len(answers) / 2)
    line = _Line(steady if mostly_steady else answers)
    if line.tells_of(end_s) and line.is_even():
        return SteadyRate(line.slope, settled_s if mostly_steady else 0.0, evenly=True)
    late_s = spans.duration_s[spans.ended_s > settled_s]
    if len(late_s) and end_s - settled_s >= LEAST_CYCLES * late_s.mean():
        return SteadyRate(rate_between(spans, besides, settled_s, end_s), settled_s)
    everything = _Line(answers)
    if everything.tells_of(end_s):
        return SteadyRate(everything.slope, 0.0)
    few = f"{len(answers)} answers in {end_s:.1f} s"
    return SteadyRate(None, 0.0, too_short=f"the siege was too short to tell the rate ({few}): take a longer --time")


class _Line:
    """The straight line through the times of answers and their numbers."""

    def __init__(self, answered_s: Floats) -> None:
        self._answered_s, self._numbers = answered_s, np.arange(float(len(answered_s)))
        self.spans_s = float(answered_s[-1] - answered_s[0]) if len(answered_s) > 2 else 0.0
        if self.spans_s:
            self.slope, self._start = line_through(answered_s, self._numbers)

    def tells_of(self, end_s: float) -> bool:
        """Whether the answers span enough of the time until then."""
        return self.spans_s > 0 and self.spans_s >= end_s / 3

    def is_even(self) -> bool:
        """Whether the answers are never far from the line, compared with how many there are."""
        if len(self._answered_s) < FEWEST_ANSWERS:
            return False
        off = np.abs(self._start + self.slope * self._answered_s - self._numbers)
        return float(off.max()) <= max(FEW_OFF_LINE, PART_OFF_LINE * len(off))


def slope_between(answered_s: Floats, from_s: float, to_s: float) -> float | None:
    """The slope of the line through the answers between two times, in order; None where they are too few for one."""
    line = _Line(answered_s[slice(*answered_s.searchsorted([from_s, to_s]))])
    return line.slope if line.spans_s > (to_s - from_s) / 2 else None


def rate_between(spans: Spans, besides: Spans, from_s: float, to_s: float) -> float:
    """Good answers per second between two times, as `steady_rate` counts them."""
    ended = float(spans.share_between(from_s, to_s).sum() + besides.share_between(from_s, to_s).sum())
    return (ended + _in_flight(spans, from_s, to_s)) / (to_s - from_s)


def _settled_s(spans: Spans, users: int) -> float:
    firsts = np.sort(spans.ended_s[spans.first])
    needed = max(1, round(SETTLED_USERS * users))
    return float(firsts[needed - 1]) if len(firsts) >= needed else float("inf")


def _in_flight(spans: Spans, from_s: float, to_s: float) -> float:
    """How many requests' worth of work may be expected of those that were not answered before `to_s`.

    For each it is the time that it was at work, times the mean of 1/duration of a request that has taken so long
    already, judged by those that took longer; if none did, as if it ended now.
    """
    late = (spans.ended_s > from_s) & (spans.duration_s > 0)
    longest_first = np.argsort(-spans.duration_s[late])
    durations = spans.duration_s[late][longest_first]
    sums = np.concatenate(([0.0], np.cumsum(spans.good[late][longest_first] / durations)))
    began = spans.ended_s[spans.last]
    began = began[began < to_s]
    longer = np.searchsorted(-durations, -(to_s - began), side="left")
    pace = np.where(longer > 0, sums[longer] / np.maximum(longer, 1), 1 / (to_s - began))
    return float(((to_s - np.maximum(began, from_s)) * pace).sum())
