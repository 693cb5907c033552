"""Compute the transaction rate of a closed loop, from single responses or from the totals of a load tool.

The rate is not simply the number of responses divided by the time, for three reasons:

* siege drops in-flight requests at the end, so the last wait of every user would count as idle time.
* The first responses arrive before the queue has reached its final length.
* Users that start together finish together, so the time from the first response to the last contains one burst too
  many.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray

from under_siege.record.record import Record

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def line_through(x: Floats, y: Floats) -> tuple[float, float]:
    """Return the slope and the intercept of the least-squares line; at least two points must differ in `x`."""
    center, height = float(x.mean()), float(y.mean())
    offsets = x - center
    slope = float(offsets @ (y - height) / (offsets @ offsets))
    return slope, height - slope * center


@dataclass(frozen=True, slots=True)
class Spans:
    """Requests, in chronological order for each user; all times are in seconds since the siege began."""

    began_s: Floats
    ended_s: Floats
    good: Flags  # whether the response was correct; other requests keep their user busy but don't count
    first: Flags  # whether it is the first request of its user
    last: Flags

    @property
    def duration_s(self) -> Floats:
        return self.ended_s - self.began_s

    def share_between(self, from_s: float, to_s: float) -> Floats:
        """Return the share of each request's duration that lies between two times, or 0 if its response was wrong."""
        inside_s = np.minimum(self.ended_s, to_s) - np.maximum(self.began_s, from_s)
        counts = self.good & (inside_s > 0)
        share: Floats = np.divide(inside_s, self.duration_s, out=np.zeros(len(inside_s)), where=counts)
        return share


def spans_of(
    ended_s: Sequence[float] | Floats,
    took_s: Sequence[float] | Floats,
    user: Sequence[int] | NDArray[np.int_],
    good: Sequence[bool] | Flags,
    step_s: float = 0.01,
) -> Spans:
    """Return the requests of a closed loop, sorted by user and time.

    Each user is assumed to send a request as soon as the previous request is answered. The duration that the tool
    reports (with the resolution `step_s`) is used only for a user's first request, and for a request whose predecessor
    has no output line.
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


def loose_spans(
    began_s: Sequence[float] | Floats, ended_s: Sequence[float] | Floats, good: Sequence[bool] | Flags
) -> Spans:
    """Return requests from outside the closed loop, as if each came from a different user."""
    each = np.ones(len(ended_s), dtype=bool)
    return Spans(np.asarray(began_s, float), np.asarray(ended_s, float), np.asarray(good, bool), each, each)


def on_clock(spans: Spans, clock: Callable[[Floats], Floats]) -> Spans:
    """Return the same requests with their times converted by `clock`."""
    return replace(spans, began_s=clock(spans.began_s), ended_s=clock(spans.ended_s))


def answered_s(*several: Spans) -> Floats:
    """Return the sorted times of all correct responses."""
    return np.sort(np.concatenate([spans.ended_s[spans.good] for spans in several]))


NO_SPANS = loose_spans([], [], [])
SETTLED_USERS = 0.9  # the steady part begins once this share of the users has had a response
LEAST_CYCLES = 1.5  # minimum length of the steady part, as a multiple of the mean response time
# If the rate predicts more than this number of responses by the time the first one arrives,
# the tasks are assumed to share the CPUs.
MOST_AT_ONCE = 3.0
FEWEST_ANSWERS = 4  # minimum number of responses for a fitted line
# Maximum deviation from the line: FEW_OFF_LINE responses or, if that is more, the share PART_OFF_LINE of all responses.
FEW_OFF_LINE, PART_OFF_LINE = 3, 0.04


@dataclass(frozen=True, slots=True)
class SteadyRate:
    """The rate over the steady part of a siege."""

    per_s: float | None
    from_s: float  # start of the steady part
    evenly: bool = False  # whether responses arrived evenly, not in bursts
    too_short: str = ""  # why there is no rate
    is_settled: bool = True  # whether the siege reached its steady part; otherwise the rate may be far too low


def steady_rate(
    spans: Spans, users: int, end_s: float, besides: Spans = NO_SPANS, *, has_pauses: bool = False
) -> SteadyRate:
    """Return the rate of correct responses over the steady part of a closed loop.

    The steady part begins once nine of ten users have had a response. If responses arrive evenly, the rate is the slope
    of the least-squares line through them. If they arrive in bursts or with pauses, each request counts as the share of
    its duration that lies in the steady part, and requests in flight at the end count as their expected share. In the
    long run, this estimate is correct for any distribution of durations: in a renewal process, the mean of 1/duration
    over time is 1/mean duration (Cox, Renewal Theory, 1962, § 5). If the siege was too short, the rate is the slope of
    the line through all responses, provided that they span at least a third of the time.

    If users pause, `spans` are cycles of a pause and a request. Their order repeats, so no line is fitted to responses.
    `users` includes users without any response. `besides` holds completed requests from outside the loop.
    """
    firsts, needed = np.sort(spans.ended_s[spans.first]), max(1, round(SETTLED_USERS * users))
    settled_s = float(firsts[needed - 1]) if len(firsts) >= needed else math.inf
    answers = answered_s(spans, besides)
    answers = answers[answers <= end_s]
    steady = answers[answers >= settled_s]
    mostly_steady = len(steady) >= max(FEWEST_ANSWERS, len(answers) / 2)
    line = steady if mostly_steady else answers
    if not has_pauses and _covers(line, end_s) and is_even(line):
        rate = _slope(line)
        # If tasks share the CPUs, the first responses arrive late, and the others follow at shorter intervals.
        is_settled = math.isfinite(settled_s) or answers[0] * rate <= MOST_AT_ONCE
        return SteadyRate(rate, settled_s if mostly_steady else 0.0, evenly=True, is_settled=is_settled)
    late_s = spans.duration_s[spans.ended_s > settled_s]
    if len(late_s) and end_s - settled_s >= LEAST_CYCLES * late_s.mean():
        ended = float(spans.share_between(settled_s, end_s).sum() + besides.share_between(settled_s, end_s).sum())
        return SteadyRate((ended + _in_flight(spans, settled_s, end_s)) / (end_s - settled_s), settled_s)
    if _covers(answers, end_s):
        return SteadyRate(_slope(answers), 0.0, is_settled=math.isfinite(settled_s))
    few = f"{len(answers)} response{'s'[: len(answers) != 1]} in {end_s:.1f} s"
    return SteadyRate(None, 0.0, too_short=f"the siege was too short to estimate the rate ({few}); use a longer --time")


def rate_of_arrivals(spans: Spans, end_s: float) -> SteadyRate:
    """Return the rate of correct responses in an open loop: those between the first and the last, by their distance.

    A count over the whole time would miss the responses to the last requests, which the load did not wait for.
    """
    answers = answered_s(spans)
    answers = answers[answers <= end_s]
    if len(answers) < FEWEST_ANSWERS or answers[-1] <= answers[0]:
        few = f"{len(answers)} response{'s'[: len(answers) != 1]} in {end_s:.1f} s"
        return SteadyRate(None, 0.0, too_short=f"the siege was too short to estimate the rate ({few}); use --time")
    return SteadyRate(float((len(answers) - 1) / (answers[-1] - answers[0])), 0.0)


def _covers(answers: Floats, end_s: float) -> bool:
    """Return whether the responses span at least a third of the time until the end."""
    covered_s = float(answers[-1] - answers[0]) if len(answers) > 2 else 0.0
    return covered_s > 0 and covered_s >= end_s / 3


def _slope(answers: Floats) -> float:
    return line_through(answers, np.arange(float(len(answers))))[0]


def is_even(answers: Floats) -> bool:
    """Return whether all responses are close to the least-squares line through them."""
    numbers = np.arange(float(len(answers)))
    slope, start = line_through(answers, numbers)
    off = np.abs(start + slope * answers - numbers)
    return len(off) >= FEWEST_ANSWERS and float(off.max()) <= max(FEW_OFF_LINE, PART_OFF_LINE * len(off))


def _in_flight(spans: Spans, from_s: float, to_s: float) -> float:
    """Estimate the work done on the requests in flight at `to_s`, as a number of requests.

    Each in-flight request counts as its time inside the period, multiplied by the mean of 1/duration over all
    requests that took longer than this request has taken so far. If no request took longer, this request is assumed to
    end at `to_s`.
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


def median_of(values: Iterable[float | None]) -> float | None:
    """Return the median of the known values, or None if there are none."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


class BurstTotals:
    """The bursts of a load tool that reports totals instead of single responses."""

    def __init__(self, record: Record) -> None:
        self.columns = record.bursts
        self.began_s: Floats = np.asarray(self.columns.began_s, dtype=float)
        self.took_s: Floats = np.asarray(self.columns.took_s, dtype=float)
        self.completed = sum(self.columns.right)  # responses with a good status
        self.attempts = self.completed + sum(self.columns.wrong_status) + sum(self.columns.unanswered)

    def __bool__(self) -> bool:
        return len(self.took_s) > 0

    def bytes_of_answers(self) -> tuple[int, int]:
        """Return the numbers of bytes and responses in all bursts with a known size and without a wrong status."""
        columns = zip(self.columns.body_bytes, self.columns.right, self.columns.wrong_status, strict=True)
        known = [(size, right) for size, right, wrong in columns if size is not None and not wrong]
        return sum(size for size, _ in known), sum(right for _, right in known)

    def rate(self, besides: Spans) -> SteadyRate:
        """Return the rate of correct responses during the bursts, including those to the requests in `besides`."""
        if not self.completed:
            return SteadyRate(None, 0.0, too_short=f"no correct response arrived within {self.took_s.sum():.1f} s")
        others_s, ends_s = besides.ended_s[besides.good], self.began_s + self.took_s
        during = (others_s >= self.began_s[:, np.newaxis]) & (others_s < ends_s[:, np.newaxis])
        from_s = max(0.0, float(self.began_s.min()))
        return SteadyRate(float((self.completed + int(during.sum())) / self.took_s.sum()), from_s)

    def percentile(self, percent: float) -> float | None:
        """Return the median of a percentile over the bursts, or None if the tool does not report this percentile."""
        columns = {50: self.columns.p50_s, 95: self.columns.p95_s, 99: self.columns.p99_s}
        return median_of(columns.get(int(percent), []))

    @property
    def longest_s(self) -> float:
        """Return the longest response time, or 0 if the tool does not report it."""
        return max((value for value in self.columns.max_s if value is not None), default=0.0)

    def awake(self, cpus: int) -> float | None:
        """Return the share of the CPUs that the tool used or waited for, or None if this share is unknown.

        If only the CPU time of the tool is known, return the share that the tool used.
        """
        known = [value for value in self.columns.tool_awake if value is not None]
        if not known:
            times = zip(self.columns.tool_cpu_s, self.took_s.tolist(), strict=True)
            known = [used_s / took_s for used_s, took_s in times]
        return median(known) / cpus if any(known) else None
