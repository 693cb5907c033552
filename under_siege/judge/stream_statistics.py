"""Compute the statistics of streams in one round: events per second, first events, and the gaps between events."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from statistics import median

import numpy as np

from under_siege.judge.estimators import UNSETTLED, Flags, Floats, Rows, SteadyRate, Waits, first_events, gaps, is_even

FEWEST_EVENTS = 20  # minimum number for a rate
EARLY = 0.1  # events that arrive evenly begin within this share of the window
LEAST_WINDOW = 0.5  # minimum length of the window in which events count, as a multiple of the longest stream
AT_ONCE_S = 0.0005
BUFFERED_S, FEWEST_BUFFERED = 0.1, 3  # shorter streams, and those with fewer events, are never called buffered
HEAD_START_S, HEAD_START = 0.1, 5.0  # minimum of a head start, in seconds and as a multiple of the median later gap
FEWEST_IN_GROUPS = 5.0  # mean number of events that arrive at once; if it is as high, the stream is buffered


class StreamStatistics:
    """The streams of a round. The events of streams that failed don't count in the rate."""

    def __init__(self, rows: Rows, load_s: float) -> None:
        self.rows, self.load_s = rows, load_s
        self._sound = rows[rows.is_correct | rows.is_open]
        self._has_event: Flags = np.isfinite(self._sound.first_s)

    @cached_property
    def events_at_s(self) -> Floats:
        """Return when each event arrived, in seconds since the load began, in ascending order."""
        begun_s = (self._sound.sent_s + self._sound.first_s)[self._has_event]
        at_s = [
            first_s + np.concatenate(([0.0], np.cumsum(gaps_s)))
            for first_s, gaps_s in zip(begun_s, self._sound.gaps_s[self._has_event], strict=True)
        ]
        return np.sort(np.concatenate([*at_s, np.empty(0)]))

    @property
    def most_events(self) -> int:
        """Return the number of events in the longest stream."""
        return 1 + max(map(len, self.rows.gaps_s), default=0)

    @cached_property
    def rate(self) -> SteadyRate:
        """Return the events per second of a stationary load.

        Users start at random times within the duration of a stream, so the load is stationary once the longest stream
        could have ended. If the events of all streams together arrive evenly, it is stationary before.
        """
        from_s, events_s = UNSETTLED * self.load_s, self.events_at_s[self.events_at_s <= self.load_s]
        late_s = events_s[events_s >= from_s]
        if len(late_s) < FEWEST_EVENTS:
            return SteadyRate(None, 0.0, too_short=f"only {len(late_s)} events arrived; use a longer --time")
        begins_early = late_s[0] - from_s <= EARLY * (self.load_s - from_s)
        if not (begins_early and is_even(late_s)):
            longest_s = float((self._sound.ended_s - self._sound.sent_s).max())
            from_s = max(from_s, longest_s)
            if self.load_s - from_s < LEAST_WINDOW * longest_s:
                why = f"streams take {longest_s:.1f} s or more, and the load took {self.load_s:.1f} s"
                return SteadyRate(None, 0.0, too_short=f"{why}; use a longer --time, or load.events to close streams")
        count = int(np.count_nonzero(events_s >= from_s))
        return SteadyRate(count / (self.load_s - from_s), from_s)

    @cached_property
    def per_s(self) -> float | None:
        """Return how many streams ended in each second of the steady part."""
        ended_s, from_s = self._sound.ended_s[self._sound.is_correct], self.rate.from_s
        count = np.count_nonzero((ended_s >= from_s) & (ended_s <= self.load_s))
        return float(count / (self.load_s - from_s)) if self.load_s > from_s else None

    @cached_property
    def at_once(self) -> float | None:
        """Return the mean number of streams in the steady part that have had their first event and have not ended."""
        from_s = self.rate.from_s
        begun_s = np.maximum((self._sound.sent_s + self._sound.first_s)[self._has_event], from_s)
        ended_s = np.minimum(self._sound.ended_s[self._has_event], self.load_s)
        lasted_s = float(np.maximum(ended_s - begun_s, 0).sum())
        return lasted_s / (self.load_s - from_s) if self.load_s > from_s else None

    @cached_property
    def first_events(self) -> Waits:
        return first_events(self.rows)

    @cached_property
    def gaps(self) -> Waits:
        return gaps(self.rows)

    @cached_property
    def later_gaps(self) -> Waits:
        """Return the gaps without the first of each stream, before which a language model reads the prompt."""
        first_s = np.array([gaps_s[0] if len(gaps_s) else math.nan for gaps_s in self.rows.gaps_s])
        gaps_s = np.empty(len(self.rows.gaps_s), dtype=object)
        for index, each in enumerate(self.rows.gaps_s):
            gaps_s[index] = each[1:]
        return gaps(replace(self.rows, first_s=self.rows.first_s + first_s, gaps_s=gaps_s))


def is_buffered(idle_events_s: Sequence[float]) -> bool:
    """Return whether the events of a stream of the idle server arrived in groups, or all at once at the end.

    The events of a group arrive in one piece, so the client sees them within AT_ONCE_S. A server that sends a few
    events in each step looks the same, so only larger groups count.

    Args:
        idle_events_s: the arrival of each event, in seconds since the request.
    """
    events_at_s = np.asarray(idle_events_s)
    if len(events_at_s) < FEWEST_BUFFERED or events_at_s[-1] < BUFFERED_S:
        return False
    groups = 1 + np.count_nonzero(np.diff(events_at_s) > AT_ONCE_S)
    return bool(groups == 1 or len(events_at_s) / groups >= FEWEST_IN_GROUPS)


def longest_gap_s(idle_events_s: Sequence[float]) -> float:
    """Return the longest gap between two events of a stream of the idle server, in seconds, or 0 if there is none."""
    return float(max(np.diff(idle_events_s), default=0.0))


def head_start_s(idle_events_s: Sequence[float]) -> float:
    """Return how much earlier than the others the first event of a stream of the idle server came, in seconds.

    The first event of a language model often names only the role, and its text begins with the second. Return 0 if the
    first event came as steadily as the others, or if there are too few.
    """
    if len(idle_events_s) < FEWEST_BUFFERED:
        return 0.0
    first_s, *later_s = np.diff(idle_events_s).tolist()
    return first_s if first_s >= max(HEAD_START_S, HEAD_START * median(later_s)) else 0.0
