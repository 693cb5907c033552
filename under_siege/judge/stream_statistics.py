"""Compute the statistics of streams in one round: events per second, first events, and the gaps between events."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from under_siege.judge.estimators import Flags, Floats, Rows, SteadyRate, Waits, first_events, gaps

UNSETTLED = 0.1  # share of the load at its beginning that does not count, because users start in it
FEWEST_EVENTS = 20  # minimum number for a rate
AT_ONCE = 0.1  # events arrive at once if the gap is shorter than this share of the mean gap
BUFFERED_S, BUFFERED_SHARE = 0.1, 0.1  # a stream is buffered if it takes this long, but its events only this share
FEWEST_IN_GROUPS = 3.0  # mean number of events that arrive at once; if it is as high, the stream is buffered


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
        """Return the events per second after the start of the load."""
        from_s = UNSETTLED * self.load_s
        count = int(np.count_nonzero((self.events_at_s >= from_s) & (self.events_at_s <= self.load_s)))
        if count < FEWEST_EVENTS:
            return SteadyRate(None, 0.0, too_short=f"only {count} events arrived; use a longer --time")
        return SteadyRate(count / (self.load_s - from_s), from_s)

    @cached_property
    def per_s(self) -> float | None:
        """Return how many streams ended in each second."""
        ended_s = self._sound.ended_s[~self._sound.is_open]
        count, from_s = np.count_nonzero(ended_s >= UNSETTLED * self.load_s), UNSETTLED * self.load_s
        return float(count / (self.load_s - from_s)) if self.load_s else None

    @cached_property
    def at_once(self) -> float | None:
        """Return the mean number of streams that have had their first event and have not ended."""
        begun_s = (self._sound.sent_s + self._sound.first_s)[self._has_event]
        ended_s = np.minimum(self._sound.ended_s[self._has_event], self.load_s)
        return float(np.maximum(ended_s - begun_s, 0).sum() / self.load_s) if self.load_s else None

    @cached_property
    def first_events(self) -> Waits:
        return first_events(self.rows)

    @cached_property
    def gaps(self) -> Waits:
        return gaps(self.rows)


def is_buffered(idle_events_s: Sequence[float]) -> bool:
    """Return whether the events of a stream of the idle server arrived in groups, or all at once at the end.

    Args:
        idle_events_s: the arrival of each event, in seconds since the request.
    """
    events_at_s = np.asarray(idle_events_s)
    if len(events_at_s) < FEWEST_IN_GROUPS or events_at_s[-1] < BUFFERED_S:
        return False
    if events_at_s[-1] - events_at_s[0] < BUFFERED_SHARE * events_at_s[-1]:
        return True
    gaps_s = np.diff(events_at_s)
    groups = 1 + np.count_nonzero(gaps_s > AT_ONCE * gaps_s.mean())
    return bool(len(events_at_s) / groups >= FEWEST_IN_GROUPS)
