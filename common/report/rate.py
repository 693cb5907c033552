"""The transaction rate of a closed loop, from when its answers came.

Why it is not simply answers ÷ time: siege drops what is in flight at the end, so the last wait of every user
would count as time without work; the first answers come before the queue has its final length; and users that
start together finish together, so that counting from the first answer to the last one counts a burst too many.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import fmean

import msgspec
import numpy as np

SETTLED_USERS = 0.9  # of the users have to have had an answer before the steady part begins
LEAST_CYCLES = 1.5  # of request and answer, on the average user, in a steady part whose shares tell the rate
FEWEST_ANSWERS = 4  # that a line is drawn through
# So many answers may be missing or too many at any moment, compared with the line, or this part of all of them.
FEW_OFF_LINE, PART_OFF_LINE = 3, 0.04
SIEGE_STEP_S = 0.01  # siege measures in steps of 10 ms


class Span(msgspec.Struct, frozen=True, gc=False):  # there are millions of them in a large result
    """One request: when it was sent and when it was answered, in seconds since the siege began."""

    began_s: float
    ended_s: float
    good: bool = True  # a right answer; others keep their user busy but are no work done

    @property
    def duration_s(self) -> float:
        """How long the user waited."""
        return self.ended_s - self.began_s


@dataclass(frozen=True, slots=True)
class SteadyRate:
    """The rate over the steady part of a siege, or None and the reason why it can't be told."""

    per_s: float | None
    from_s: float  # where the steady part begins
    too_short: str = ""


def spans_of(
    ended_s: Sequence[float], siege_s: Sequence[float], user: Sequence[int], good: Sequence[bool]
) -> dict[int, list[Span]]:
    """The requests of each user, in order. A user without delay sends the next one when the last one was answered.

    Siege's own duration, in steps of 10 ms, serves for the first one and after a request that left no line.
    """
    spans: dict[int, list[Span]] = defaultdict(list)
    for end, took, who, right in zip(ended_s, siege_s, user, good, strict=True):
        earlier = spans[who][-1].ended_s if spans[who] else 0.0
        began = max(earlier, end - took - SIEGE_STEP_S) if end - took - earlier > SIEGE_STEP_S else earlier
        spans[who].append(Span(began, end, right))
    return dict(spans)


def steady_rate(spans: dict[int, list[Span]], users: int, end_s: float, besides: Sequence[Span] = ()) -> SteadyRate:
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
    answers = sorted(span.ended_s for span in (*_all(spans), *besides) if span.good and span.ended_s <= end_s)
    steady = [at_s for at_s in answers if at_s >= settled_s]
    mostly_steady = len(steady) >= max(FEWEST_ANSWERS, len(answers) / 2)
    line = _Line(steady if mostly_steady else answers)
    if line.spans_s >= end_s / 3 and line.is_even():
        return SteadyRate(line.slope, settled_s if mostly_steady else 0.0)
    late = [span.duration_s for span in _all(spans) if span.ended_s > settled_s]
    if late and end_s - settled_s >= LEAST_CYCLES * fmean(late):
        return SteadyRate(rate_between(spans, besides, settled_s, end_s), settled_s)
    everything = _Line(answers)
    if everything.spans_s >= end_s / 3:
        return SteadyRate(everything.slope, 0.0)
    few = f"{len(answers)} answers in {end_s:.1f} s"
    return SteadyRate(None, 0.0, f"the siege was too short to tell the rate ({few}): take a longer --time")


class _Line:
    """The straight line through the times of answers and their numbers."""

    def __init__(self, answered_s: Sequence[float]) -> None:
        self._answered_s = answered_s
        self.spans_s = answered_s[-1] - answered_s[0] if len(answered_s) > 2 else 0.0
        if self.spans_s:
            self.slope, self._start = map(float, np.polyfit(answered_s, range(len(answered_s)), 1))

    def is_even(self) -> bool:
        """Whether the answers are never far from the line, compared with how many there are."""
        if len(self._answered_s) < FEWEST_ANSWERS:
            return False
        numbers = np.arange(len(self._answered_s))
        off = np.abs(self._start + self.slope * np.asarray(self._answered_s) - numbers)
        return float(off.max()) <= max(FEW_OFF_LINE, PART_OFF_LINE * len(numbers))


def rate_between(spans: dict[int, list[Span]], besides: Sequence[Span], from_s: float, to_s: float) -> float:
    """Good answers per second between two times, as `steady_rate` counts them."""
    late = [span for span in _all(spans) if span.ended_s > from_s and span.duration_s > 0]
    work = _of_users(spans, late, from_s, to_s) + sum(_inside(span, from_s, to_s) for span in besides)
    return work / (to_s - from_s)


def _settled_s(spans: dict[int, list[Span]], users: int) -> float:
    firsts = sorted(requests[0].ended_s for requests in spans.values())
    needed = max(1, round(SETTLED_USERS * users))
    return firsts[needed - 1] if len(firsts) >= needed else float("inf")


def _of_users(spans: dict[int, list[Span]], late: Sequence[Span], from_s: float, to_s: float) -> float:
    """How many requests' worth of work for the users lies between the two times."""
    work, pace = sum(_inside(span, from_s, to_s) for span in late), _Pace(late)
    for requests in spans.values():
        began_s = requests[-1].ended_s
        if to_s > began_s:
            work += (to_s - max(began_s, from_s)) * pace.after(to_s - began_s)
    return work


def _inside(span: Span, from_s: float, to_s: float) -> float:
    """The share of a request that lies between the two times; nothing if its answer was not a good one."""
    if not span.good or span.duration_s <= 0:
        return 0.0
    return max(0.0, min(span.ended_s, to_s) - max(span.began_s, from_s)) / span.duration_s


class _Pace:
    """The mean of 1/duration of requests that take longer than some time, judged by those that were answered."""

    def __init__(self, answered: Sequence[Span]) -> None:
        longest_first = sorted(answered, key=lambda span: -span.duration_s)
        self._minus_s = [-span.duration_s for span in longest_first]
        self._sums = [0.0, *accumulate(span.good / span.duration_s for span in longest_first)]

    def after(self, so_far_s: float) -> float:
        """Of a request that has taken so long already; if none took longer, as if it ended now."""
        longer = bisect_left(self._minus_s, -so_far_s)
        return self._sums[longer] / longer if longer else 1 / so_far_s


def _all(spans: dict[int, list[Span]]) -> Iterable[Span]:
    return (span for requests in spans.values() for span in requests)
