"""Compute the transaction rate of a closed loop, from single answers or from the totals of a load tool.

It is not simply answers / time, for three reasons. siege drops requests in flight at the end, so the last wait of every
user would count as idle time. The first answers come before the queue has its final length. And users that start
together finish together, so counting from the first answer to the last would count one burst too many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

import numpy as np
from numpy.typing import NDArray

from under_siege.model.record import Record

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def line_through(x: Floats, y: Floats) -> tuple[float, float]:
    """Return the slope of the least-squares line, and its height at 0; the points must not all have the same `x`."""
    center, height = float(x.mean()), float(y.mean())
    offsets = x - center
    slope = float(offsets @ (y - height) / (offsets @ offsets))
    return slope, height - slope * center


@dataclass(frozen=True, slots=True)
class Spans:
    """Requests, each from `began_s` to `ended_s`, in seconds since the siege began; those of a user are in order."""

    began_s: Floats
    ended_s: Floats
    good: Flags  # a right answer; others keep their user busy but are no work done
    first: Flags  # of their user
    last: Flags

    @property
    def duration_s(self) -> Floats:
        """How long the users waited."""
        return self.ended_s - self.began_s

    def share_between(self, from_s: float, to_s: float) -> Floats:
        """Return the share of each that lies between the two times; nothing of one whose answer was not a good one."""
        inside_s = np.minimum(self.ended_s, to_s) - np.maximum(self.began_s, from_s)
        counts = self.good & (inside_s > 0)
        share: Floats = np.divide(inside_s, self.duration_s, out=np.zeros(len(inside_s)), where=counts)
        return share


def spans_of(
    ended_s: Sequence[float],
    took_s: Sequence[float],
    user: Sequence[int],
    good: Sequence[bool] | Flags,
    step_s: float = 0.01,
) -> Spans:
    """Return the requests of a closed loop, in the order of their users and of time.

    A user without delay sends the next one when the last one was answered. The tool's own duration, in steps of
    `step_s`, serves for the first one and after a request that left no line.
    """
    users = np.asarray(user, dtype=int)
    order = np.argsort(users, kind="stable")
    ended, took, users = np.asarray(ended_s, dtype=float)[order], np.asarray(took_s, dtype=float)[order], users[order]
    changes = users[1:] != users[:-1]
    first, last = np.ones(len(users), dtype=bool), np.ones(len(users), dtype=bool)
    first[1:], last[:-1] = changes, changes
    earlier = np.zeros(len(users))
    earlier[1:] = np.where(changes, 0.0, ended[:-1])
    began = np.where(ended - took - earlier > step_s, ended - took - step_s, earlier)
    return Spans(np.maximum(began, earlier), ended, np.asarray(good, dtype=bool)[order], first, last)


def loose_spans(began_s: Sequence[float], ended_s: Sequence[float], good: Sequence[bool]) -> Spans:
    """Requests from outside of the loop, each as if by a user of its own."""
    each = np.ones(len(ended_s), dtype=bool)
    return Spans(np.asarray(began_s, float), np.asarray(ended_s, float), np.asarray(good, bool), each, each)


def on_clock(spans: Spans, clock: Callable[[Floats], Floats]) -> Spans:
    """Return the same requests at the times of another clock."""
    return replace(spans, began_s=clock(spans.began_s), ended_s=clock(spans.ended_s))


NONE = loose_spans([], [], [])


SETTLED_USERS = 0.9  # the steady part begins when this share of the users has had an answer
LEAST_CYCLES = 1.5  # minimum length of a steady part, in cycles of request and answer of the average user
FEWEST_ANSWERS = 4  # minimum number of answers for a line
# So many answers may be missing or too many at any moment, compared with the line, or this part of all of them.
FEW_OFF_LINE, PART_OFF_LINE = 3, 0.04


@dataclass(frozen=True, slots=True)
class SteadyRate:
    """The rate over the steady part of a siege, or None and the reason why it can't be told."""

    per_s: float | None
    from_s: float  # where the steady part begins
    evenly: bool = False  # whether its answers came one after the other, and not in bursts
    too_short: str = ""  # why there is no rate
    is_settled: bool = True  # whether nine of ten users had an answer; otherwise the rate may be far too low


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
        return SteadyRate(everything.slope, 0.0, is_settled=math.isfinite(settled_s))
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
        """Return whether the answers span enough of the time until then."""
        return self.spans_s > 0 and self.spans_s >= end_s / 3

    def is_even(self) -> bool:
        """Return whether the answers are never far from the line, compared with how many there are."""
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
    """Return how many requests' worth of work may be expected of those that were not answered before `to_s`.

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


class Totals:
    """The bursts of one record."""

    def __init__(self, record: Record) -> None:
        columns = record.bursts
        self.columns = columns
        self.began_s: Floats = np.asarray(columns.began_s, dtype=float)
        self.took_s: Floats = np.asarray(columns.took_s, dtype=float)
        self.right = np.asarray(columns.right, dtype=int)

    def __bool__(self) -> bool:
        return len(self.took_s) > 0

    @property
    def completed(self) -> int:
        """Answers with a good status."""
        return int(self.right.sum())

    @property
    def attempts(self) -> int:
        """Requests that ended in one way or another."""
        return self.completed + sum(self.columns.wrong_status) + sum(self.columns.unanswered)

    def bytes_of_answers(self) -> tuple[int, int] | None:
        """Return how many bytes so many answers had, where the tool tells that and no status was a wrong one."""
        columns = zip(self.columns.body_bytes, self.columns.right, self.columns.wrong_status, strict=True)
        known = [(size, right) for size, right, wrong in columns if size is not None and not wrong]
        return (sum(size for size, _ in known), sum(right for _, right in known)) if known else None

    @cached_property
    def from_s(self) -> float:
        """When the first of them began."""
        return max(0.0, float(self.began_s.min()))

    def rate(self, besides: Spans) -> SteadyRate:
        """Answers per second of the time that the bursts took; `besides` are requests of others meanwhile."""
        if not self.completed:
            return SteadyRate(None, 0.0, too_short=f"no answer came in {self.took_s.sum():.1f} s")
        answers = self.completed + sum(self._meanwhile(besides))
        return SteadyRate(float(answers / self.took_s.sum()), self.from_s)

    def batches(self, besides: Spans) -> list[tuple[float, float, float]]:
        """From, to, and the rate of each burst that has one."""
        others = self._meanwhile(besides)
        bursts = zip(self.began_s.tolist(), self.took_s.tolist(), self.right.tolist(), others, strict=True)
        return [(began, began + took, (right + more) / took) for began, took, right, more in bursts if right]

    def _meanwhile(self, besides: Spans) -> list[int]:
        """Return how many right answers others got in each burst."""
        ended_s = besides.ended_s[besides.good]
        ends_s = self.began_s + self.took_s
        return [
            int(((ended_s >= began) & (ended_s < end)).sum())
            for began, end in zip(self.began_s.tolist(), ends_s.tolist(), strict=True)
        ]

    def percentile(self, percent: float) -> float | None:
        """Return the median over the bursts; None where the tool tells no such one."""
        columns = {50: self.columns.p50_s, 95: self.columns.p95_s, 99: self.columns.p99_s}
        known = [value for value in columns[int(percent)] if value is not None]
        return median(known) if known else None

    @property
    def longest_s(self) -> float:
        """Of all answers, as far as that is told; 0 where it is not."""
        return max((value for value in self.columns.max_s if value is not None), default=0.0)

    def awake(self, cpus: int) -> float | None:
        """Return the share of the time that the tool was awake, of what it could be; None where that isn't known.

        Where the system does not tell it, its CPU time stands for it.
        """
        known = [value for value in self.columns.tool_awake if value is not None]
        if not known:
            known = [
                used_s / took_s for used_s, took_s in zip(self.columns.tool_cpu_s, self.took_s.tolist(), strict=True)
            ]
        return median(known) / cpus if any(known) else None
