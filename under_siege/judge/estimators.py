"""Turn rows of requests into figures: waits, rates and availability, each with what is known about its accuracy.

No figure that is shown is computed anywhere else: the table, requests of a mix, streams, pings, steps of `capacity` and
incidents of `drill` call these functions.

The rate of a load has three cases:

* A saturated closed loop, in which users send a request as soon as the previous one is answered (`saturated_rate`).
* A closed loop whose users pause (`paced_rate`): correct responses in a window, divided by its length. Users start at a
  random moment of their first pause, so the load is stationary from the beginning, except for its longest responses.
* Arrivals at a given rate (`rate_of_arrivals`): the same, from the time that the first responses took. What a server
  answers is not what it is asked.

Each is the number of correct responses, or events of streams, that a stationary load gets per second. If the load was
too short to know it, there is no rate, but a reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from under_siege import formatting
from under_siege.record.requests import CORRECT, LATE, OPEN, Requests

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int_]
SHORTEST_S = 1e-6  # a gap between events that arrive together, because the logarithm of 0 is not finite


@dataclass(frozen=True)
class Rows:
    """Requests of one sender, in arrays of the same length; see `Requests` for the columns."""

    user: Integers
    request: Integers
    due_s: Floats
    sent_s: Floats
    ended_s: Floats
    status: Integers
    size_bytes: Integers
    outcome: NDArray[np.str_]
    problem: NDArray[np.object_]  # texts
    first_s: Floats  # time to the first event of a stream; NaN: none
    gaps_s: NDArray[Any]  # of objects: an array of the gaps between the events of each stream

    @classmethod
    def of(cls, requests: Requests, *senders: str) -> Rows:
        """Return the rows of these senders."""
        chosen = np.isin(np.asarray(requests.sender, dtype=str), senders)
        first_us = np.asarray(requests.first_us or [-1] * len(requests), dtype=float)[chosen]
        gaps_s = np.empty(int(chosen.sum()), dtype=object)
        gaps_us = (
            [gaps for gaps, is_in in zip(requests.gaps_us, chosen, strict=True) if is_in] if requests.gaps_us else []
        )
        for index in range(len(gaps_s)):
            gaps_s[index] = np.asarray(gaps_us[index] if gaps_us else [], dtype=float) / 1e6
        return cls(
            np.asarray(requests.user, dtype=int)[chosen],
            np.asarray(requests.request, dtype=int)[chosen],
            np.asarray(requests.due_s, dtype=float)[chosen],
            np.asarray(requests.sent_s, dtype=float)[chosen],
            np.asarray(requests.ended_s, dtype=float)[chosen],
            np.asarray(requests.status, dtype=int)[chosen],
            np.asarray(requests.size_bytes, dtype=int)[chosen],
            np.asarray(requests.outcome, dtype=str)[chosen],
            np.asarray(requests.problem, dtype=object)[chosen],
            np.where(first_us >= 0, first_us / 1e6, np.nan),
            gaps_s,
        )

    def __len__(self) -> int:
        return len(self.outcome)

    def __getitem__(self, chosen: Flags | Integers | slice) -> Rows:
        """Return some of the rows."""
        return Rows(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @cached_property
    def is_correct(self) -> Flags:
        return np.asarray(self.outcome == CORRECT)

    @cached_property
    def is_open(self) -> Flags:
        return np.asarray(self.outcome == OPEN)

    @cached_property
    def waited_s(self) -> Floats:
        """Return the time from when each request was due until it ended."""
        return np.maximum(self.ended_s - self.due_s, 0.0)

    @cached_property
    def is_unknown(self) -> Flags:
        """Return whether each request might have got a correct response later."""
        return np.isin(self.outcome, (LATE, OPEN))


@dataclass(frozen=True)
class Waits:
    """Waiting times in seconds; `answered` is false for a wait without a correct response (right-censored)."""

    waited_s: Floats
    answered: Flags
    has_failed: Flags | None = None  # whether the wait for a correct response never ends; None: no such wait

    def percentile(self, percent: float) -> float | None:
        """Return the Kaplan-Meier estimate of a percentile, or None if too few waits ended with a correct response.

        The estimate is interpolated: each wait is the quantile of the middle of its step of the distribution. The first
        wait that reaches the percentile would make the p99 of 200 waits 5 % too low.

        Sources: Kaplan and Meier, Journal of the American Statistical Association 53, 1958; Hyndman and Fan, The
        American Statistician 50, 1996, definition 5.
        """
        times, share = self._distribution
        reached = int(share.searchsorted(percent / 100 - 1e-9))
        if reached == len(times):
            return None
        steps = np.diff(share, prepend=0.0)
        used = (steps > 0) & np.isfinite(times)
        if not math.isfinite(times[reached]):
            return math.inf
        return float(np.interp(percent / 100, (share - steps / 2)[used], times[used]))

    def longest_s(self) -> float | None:
        """Return the longest wait, whether or not it ended with a response, or None if there are no waits."""
        finite_s = self.waited_s[np.isfinite(self.waited_s)]
        return float(finite_s.max()) if len(finite_s) else None

    def at_least_s(self, percent: float) -> float | None:
        """Return a percentile or, if it was not reached, the longest wait, which is a lower bound."""
        value_s = self.percentile(percent)
        return self.longest_s() if value_s is None else value_s

    @cached_property
    def _distribution(self) -> tuple[Floats, Floats]:
        """Return the sorted waiting times, and the estimated share of requests answered within each of these times."""
        ends_s = self.waited_s if self.has_failed is None else np.where(self.has_failed, math.inf, self.waited_s)
        order = np.lexsort((~self.answered, ends_s))
        at_risk = np.arange(len(order), 0, -1)
        share = 1 - np.cumprod(1 - self.answered[order] / at_risk)
        return ends_s[order], np.asarray(share, dtype=np.float64)


def together(several: Iterable[Waits]) -> Waits:
    """Combine several sets of waits into one."""
    several = list(several)
    waited_s = np.concatenate([*(waits.waited_s for waits in several), np.empty(0)])
    none = np.empty(0, dtype=bool)
    failed = (np.zeros(len(each.answered), bool) if each.has_failed is None else each.has_failed for each in several)
    return Waits(
        waited_s, np.concatenate([*(waits.answered for waits in several), none]), np.concatenate([*failed, none])
    )


def waits(rows: Rows) -> Waits:
    """Return how long each request waited from when it was due.

    The wait of a request that timed out, or that the end of the load cut off, is censored at that time. The wait of a
    request that failed never ends: if it were censored, too, losses within a millisecond would not count.
    """
    return Waits(rows.waited_s, rows.is_correct, ~(rows.is_correct | rows.is_unknown))


def waits_in_growing_queue(rows: Rows) -> Waits:
    """Return the same for a server that can't keep up: requests that were left at the end wait longer than all others.

    They were due last, so their waits until the end tell nothing about how long they would have waited.
    """
    return replace(waits(rows), waited_s=np.where(rows.is_open, math.inf, rows.waited_s))


def first_events(rows: Rows) -> Waits:
    """Return the time from each request to the first event of its stream, which includes the connection.

    A stream without any event is censored at its end; the first event of one that failed never comes.
    """
    has_event, is_sound = np.isfinite(rows.first_s), rows.is_correct | rows.is_open
    began_late_s = rows.sent_s - rows.due_s
    return Waits(
        np.where(has_event, rows.first_s + began_late_s, rows.waited_s),
        has_event & is_sound,
        ~(is_sound | (rows.is_unknown & ~has_event)),
    )


def gaps(rows: Rows) -> Waits:
    """Return the times between two events of the same stream, of all streams.

    The gap between the last event of an unfinished stream and its end is censored; that of a failed stream never ends.
    If complete streams have a single event, there are no gaps.
    """
    ended_s = np.maximum(np.concatenate([*rows.gaps_s, np.empty(0)]), SHORTEST_S)
    if not len(ended_s) and rows.is_correct.any():
        return together([])
    lasted_s = np.array([gaps_s.sum() for gaps_s in rows.gaps_s])
    is_cut = ~rows.is_correct & np.isfinite(rows.first_s)
    left_s = np.maximum((rows.ended_s - rows.sent_s - rows.first_s - lasted_s)[is_cut], 0.0)
    left_s = np.where(rows.is_open[is_cut], left_s, np.inf)
    answered = np.concatenate((np.ones(len(ended_s), dtype=bool), np.zeros(len(left_s), dtype=bool)))
    return Waits(np.concatenate((ended_s, left_s)), answered)


@dataclass(frozen=True, slots=True)
class Availability:
    """How many requests got a correct response, of all that were not cut off by the end of the load."""

    correct: int
    counted: int

    @property
    def share(self) -> float | None:
        return self.correct / self.counted if self.counted else None


def availability(rows: Rows, unlisted_losses: int = 0) -> Availability:
    """Return the availability; losses that a tool reports only as a total have no rows."""
    return Availability(int(rows.is_correct.sum()), int((~rows.is_open).sum()) + unlisted_losses)


def lateness_s(stalls_s: Sequence[float], load_s: float, percent: float) -> float:
    """Return a percentile of the time until a client can run, at a random time of the load.

    At a random time within a stall, the rest of the stall is left. A percentile of samples, of which a stall delays the
    next one, would hide long stalls (coordinated omission).
    """
    left_s = (1 - percent / 100) * load_s
    longer_s = 0.0
    number = 0
    for number, stall_s in enumerate(sorted(stalls_s, reverse=True), 1):
        if longer_s - (number - 1) * stall_s >= left_s:
            return (longer_s - left_s) / (number - 1)
        longer_s += stall_s
    return max(0.0, (longer_s - left_s) / number) if number else 0.0


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


def cycles_of(rows: Rows, step_s: float = 0.01) -> Spans:
    """Return the requests of a closed loop that ended before it, sorted by user and time.

    Each user is assumed to send a request as soon as the previous request has ended. The time at which the tool says
    that a request was sent (with the resolution `step_s`) is used only for a user's first request, and for a request
    whose predecessor has no row. If `step_s` is infinite, each cycle includes the pause before the request.
    """
    rows = rows[~rows.is_open]
    order = np.lexsort((rows.ended_s, rows.user))
    ended = rows.ended_s[order]
    took = (rows.ended_s - rows.sent_s)[order]
    users = rows.user[order]
    changes = users[1:] != users[:-1]
    first, last = np.ones(len(users), dtype=bool), np.ones(len(users), dtype=bool)
    first[1:], last[:-1] = changes, changes
    earlier = np.zeros(len(users))
    earlier[1:] = np.where(changes, 0.0, ended[:-1])
    began = np.where(ended - took - earlier > step_s, ended - took - step_s, earlier)
    return Spans(np.maximum(began, earlier), ended, rows.is_correct[order], first, last)


def single_spans(rows: Rows) -> Spans:
    """Return requests that do not wait for each other, as if each came from a different user."""
    each = np.ones(len(rows), dtype=bool)
    return Spans(rows.sent_s, rows.ended_s, rows.is_correct, each, each)


def on_clock(spans: Spans, clock: Callable[[Floats], Floats]) -> Spans:
    """Return the same requests with their times converted by `clock`."""
    return replace(spans, began_s=clock(spans.began_s), ended_s=clock(spans.ended_s))


def answered_s(*several: Spans) -> Floats:
    """Return the sorted times of all correct responses."""
    return np.sort(np.concatenate([spans.ended_s[spans.good] for spans in several]))


_NONE = np.empty(0)
NO_SPANS = Spans(_NONE, _NONE, _NONE.astype(bool), _NONE.astype(bool), _NONE.astype(bool))
SETTLED_USERS = 0.9  # the steady part begins once this share of the users has had a response
LEAST_CYCLES = 1.5  # minimum length of the steady part, as a multiple of the mean response time
# If the rate predicts more than this number of responses by the time the first one arrives,
# the tasks are assumed to share the CPUs.
MOST_AT_ONCE = 3.0
# If the first requests of nine of ten users end within this range, relative to the last of them, tasks share the CPUs.
TOGETHER = 0.5
MANY_UNEVEN = 120  # this number of responses shows the rate even if the machine's noise makes them uneven
UNSETTLED_DEVIATION = 0.05  # standard deviation of the logarithm of a rate without a steady part
FEWEST_ANSWERS = 4  # minimum number of responses for a rate
LEAST_LONGEST = 2.0  # minimum length of a window in which responses are counted, as a multiple of the longest one
LONG_TAIL = 8.0  # if a request takes this multiple of the median, it is much longer than most
KEEPS_UP = 0.95  # a server that answers a smaller share of what arrives does not keep up,
DEVIATIONS_OF_ARRIVALS = 3.0  # unless the requests that are left are within this number of standard deviations
LEAST_OF_FIRST = 0.5  # minimum length of a window in which arrivals count, as a multiple of the first responses
UNSETTLED = 0.1  # share of the load at its beginning that does not count, unless it settles earlier
# Maximum deviation from the line: FEW_OFF_LINE responses or, if that is more, the share PART_OFF_LINE of all responses.
FEW_OFF_LINE, PART_OFF_LINE = 3, 0.04


@dataclass(frozen=True, slots=True)
class SteadyRate:
    """The rate of a load in its steady part."""

    per_s: float | None
    from_s: float  # start of the steady part
    evenly: bool = False  # whether responses arrived evenly, not in bursts
    too_short: str = ""  # why there is no rate
    is_settled: bool = True  # whether the siege reached its steady part; otherwise the rate may be far too low
    variance: float = 0.0  # of the logarithm of the rate, because the load is a sample of a random process


def too_short(answers: int, end_s: float, why: str = "") -> SteadyRate:
    few = f"{formatting.counted(answers, 'response')} in {end_s:.1f} s{why}"
    return SteadyRate(None, 0.0, too_short=f"the siege was too short to estimate the rate ({few}); use a longer --time")


def counted_rate(spans: Spans, from_s: float, end_s: float, open_since_s: Floats) -> SteadyRate:
    """Return the number of correct responses in a window, divided by its length.

    This is the rate of a stationary load, whatever the distribution of its durations, if the window begins when the
    load is stationary, and is long enough. A load is taken to be stationary after the longest request that was seen,
    and the rest must be LEAST_LONGEST times as long.

    The variance is that of the number of events of a renewal process (Cox, Renewal Theory, 1962, § 4.2).

    Args:
        spans: the requests that ended, or the cycles of users who pause.
        from_s: the earliest beginning of the window.
        open_since_s: when the requests began that the end of the load cut off.
    """
    durations_s = spans.duration_s
    longest_s = max([0.0, *durations_s.tolist(), *(end_s - open_since_s).tolist()])
    from_s = max(from_s, longest_s)
    answers = answered_s(spans)
    count = int(np.count_nonzero((answers > from_s) & (answers <= end_s)))
    if count < FEWEST_ANSWERS or end_s - from_s < LEAST_LONGEST * longest_s:
        longest = f", of which the longest took {longest_s:.1f} s or more" if len(answers) >= FEWEST_ANSWERS else ""
        return too_short(len(answers), end_s, longest)
    variation = float(np.var(durations_s) / np.mean(durations_s) ** 2) if durations_s.any() else 0.0
    return SteadyRate(count / (end_s - from_s), from_s, variance=variation / count)


def paced_rate(rows: Rows, end_s: float) -> SteadyRate:
    """Return the rate of users who pause. They start in the middle of a pause, so only responses have to settle."""
    counted = counted_rate(single_spans(rows[~rows.is_open]), 0.0, end_s, rows.sent_s[rows.is_open])
    cycles_s = cycles_of(rows, math.inf).duration_s
    if counted.per_s is None or not len(cycles_s):
        return counted
    variation = float(np.var(cycles_s) / np.mean(cycles_s) ** 2)
    return replace(counted, variance=variation / (counted.per_s * (end_s - counted.from_s)))


def saturated_rate(
    spans: Spans, users: int, end_s: float, besides: Spans = NO_SPANS, open_since_s: Floats = _NONE
) -> SteadyRate:
    """Return the rate of correct responses over the steady part of a closed loop whose users do not pause.

    The steady part begins once nine of ten users have had a response. If responses arrive evenly, the rate is the slope
    of the least-squares line through them. If they arrive in bursts, each request counts as the share of its duration
    that lies in the steady part, and requests in flight at the end count as their expected share. In the long run, this
    estimate is correct for any distribution of durations: in a renewal process, the mean of 1/duration over time is
    1/mean duration (Cox, Renewal Theory, 1962, § 5). In a short siege it is not, if a few requests take much longer
    than the others, so then `counted_rate` applies. If the siege is too short for a steady part, but tasks share the
    CPUs, so that the first requests of all users take about equally long, the whole siege counts in the same way.
    Otherwise, the rate is the slope of the line through all responses, if they span at least a third of the time.

    `users` includes users without any response. `besides` holds completed requests from outside the loop, and
    `open_since_s` when the last requests of the users with a response began, if the end of the load cut them off.
    """
    firsts, needed = np.sort(spans.ended_s[spans.first]), max(1, round(SETTLED_USERS * users))
    settled_s = float(firsts[needed - 1]) if len(firsts) >= needed else math.inf
    answers = answered_s(spans, besides)
    answers = answers[answers <= end_s]
    if _has_long_tail(spans, end_s, open_since_s):
        return counted_rate(spans, min(settled_s, end_s), end_s, open_since_s)
    steady = answers[answers >= settled_s]
    mostly_steady = len(steady) >= max(FEWEST_ANSWERS, len(answers) / 2)
    line = steady if mostly_steady else answers
    if _covers(line, end_s) and is_even(line):
        is_settled = math.isfinite(settled_s) or begins_early(answers)
        return SteadyRate(_slope(line), settled_s if mostly_steady else 0.0, evenly=True, is_settled=is_settled)
    late_s = spans.duration_s[spans.ended_s > settled_s]
    if len(late_s) and end_s - settled_s >= LEAST_CYCLES * late_s.mean():
        return SteadyRate(_work_done(spans, besides, settled_s, end_s), settled_s)
    is_together = math.isfinite(settled_s) and firsts[len(firsts) // 10] >= TOGETHER * settled_s
    if is_together and np.count_nonzero(~spans.first) >= FEWEST_ANSWERS:
        return SteadyRate(_work_done(spans, besides, 0.0, end_s), 0.0, variance=UNSETTLED_DEVIATION**2)
    if _covers(answers, end_s):
        is_settled = math.isfinite(settled_s) or (len(answers) >= MANY_UNEVEN and begins_early(answers))
        return SteadyRate(_slope(answers), 0.0, is_settled=is_settled)
    return too_short(len(answers), end_s)


def _work_done(spans: Spans, besides: Spans, from_s: float, to_s: float) -> float:
    """Return the rate of a period, in which each request counts as the share of its duration in this period."""
    ended = float(spans.share_between(from_s, to_s).sum() + besides.share_between(from_s, to_s).sum())
    return (ended + _in_flight(spans, from_s, to_s)) / (to_s - from_s)


def _has_long_tail(spans: Spans, end_s: float, open_since_s: Floats) -> bool:
    """Return whether some requests took, or have already taken, much longer than most: a cache, or a mix."""
    later_s = spans.duration_s[~spans.first]
    if len(later_s) < FEWEST_ANSWERS:
        return False
    longest_s = max(float(later_s.max()), *(end_s - open_since_s).tolist(), 0.0)
    return bool(longest_s > LONG_TAIL * np.median(later_s))


def rate_of_arrivals(rows: Rows, end_s: float) -> SteadyRate:
    """Return the rate of correct responses in an open loop.

    It is stationary once the first requests could have been answered. A server that can't keep up answers less than it
    is asked: its waits grow, but its rate is stationary, too, so the waits of later requests don't matter.
    """
    ended = rows[rows.is_correct & (rows.ended_s <= end_s)]
    first = ended[np.argsort(ended.due_s)][: max(FEWEST_ANSWERS, round(UNSETTLED * len(ended)))]
    from_s = waits(first).percentile(95) or 0.0
    count = int(np.count_nonzero(ended.ended_s > from_s))
    if count < FEWEST_ANSWERS or end_s - from_s < LEAST_OF_FIRST * from_s:
        return too_short(len(ended), end_s, f", of which the first took {from_s:.1f} s" if len(ended) else "")
    return SteadyRate(count / (end_s - from_s), from_s)


@dataclass(frozen=True, slots=True)
class Overload:
    """Requests that arrived faster than the server answered them, so that its queue grew until the end."""

    asked_per_s: float
    answered_per_s: float
    left: int  # requests that were unanswered at the end


def overload(rows: Rows, end_s: float) -> Overload | None:
    """Return the overload of an open loop, or None if the server kept up."""
    rate = rate_of_arrivals(rows, end_s)
    if not rate.per_s:
        return None
    asked, left = int(np.count_nonzero(rows.due_s > rate.from_s)), int(rows.is_open.sum())
    asked_per_s = asked / (end_s - rate.from_s)
    in_progress = asked_per_s * rate.from_s  # at any time, by Little's law, if waits don't grow
    most_left = max(_at_most(0, asked), _at_most(in_progress, in_progress))
    keeps_up = rate.per_s >= KEEPS_UP * asked_per_s or left <= most_left
    return None if keeps_up else Overload(asked_per_s, rate.per_s, left)


def _at_most(mean: float, variance: float) -> float:
    return mean + DEVIATIONS_OF_ARRIVALS * math.sqrt(variance)


def _covers(answers: Floats, end_s: float) -> bool:
    """Return whether the responses span at least a third of the time until the end."""
    covered_s = float(answers[-1] - answers[0]) if len(answers) > 2 else 0.0
    return covered_s > 0 and covered_s >= end_s / 3


def _slope(answers: Floats) -> float:
    return line_through(answers, np.arange(float(len(answers))))[0]


def begins_early(answers: Floats) -> bool:
    """Return whether the first response is not late: tasks that share the CPUs would end late, and then follow fast."""
    return bool(answers[0] * _slope(answers) <= MOST_AT_ONCE)


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
