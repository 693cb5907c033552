"""Compute the statistics of streams in one round: events per second, first events, and the gaps between events."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from under_siege.judge.censored_samples import CensoredSamples
from under_siege.judge.steady_rate import Flags, Floats, SteadyRate
from under_siege.record.record import Streams

UNSETTLED = 0.1  # share of the load at its beginning that does not count, because users start in it
FEWEST_EVENTS = 20  # minimum number for a rate
SHORTEST_US = 1.0  # gap between events that arrive together, because the logarithm of 0 is not finite
AT_ONCE = 0.1  # events arrive at once if the gap is shorter than this share of the mean gap
BUFFERED_S, BUFFERED_SHARE = 0.1, 0.1  # a stream is buffered if it takes this long, but its events only this share
FEWEST_IN_GROUPS = 3.0  # mean number of events that arrive at once; if it is as high, the stream is buffered


class StreamStatistics:
    """The streams of a round. Those that failed count only as failed requests."""

    def __init__(self, streams: Streams, load_s: float) -> None:
        self.load_s, self.late_s = load_s, streams.late_s or 0.0
        sound = [index for index, outcome in enumerate(streams.outcome) if outcome != "failed"]
        self._gaps_s = [np.maximum(streams.gaps_us[index], SHORTEST_US) / 1e6 for index in sound]
        self._first_s: Floats = np.asarray([streams.first_us[index] for index in sound], dtype=float) / 1e6
        self._sent_s: Floats = np.asarray([streams.sent_s[index] for index in sound], dtype=float)
        self._ended_s: Floats = np.asarray([streams.ended_s[index] for index in sound], dtype=float)
        self._is_open: Flags = np.asarray([streams.outcome[index] == "open" for index in sound], dtype=bool)
        self._has_event: Flags = self._first_s >= 0

    @cached_property
    def _lasts_s(self) -> Floats:
        """Return the time from the first to the last event of each stream."""
        return np.array([gaps_s.sum() for gaps_s in self._gaps_s])

    @cached_property
    def events_at_s(self) -> Floats:
        """Return when each event arrived, in seconds since the load began, in ascending order."""
        begun_s = np.where(self._has_event, self._sent_s + self._first_s, np.inf)
        at_s = [
            first_s + np.concatenate(([0.0], np.cumsum(gaps_s)))
            for first_s, gaps_s in zip(begun_s, self._gaps_s, strict=True)
        ]
        return np.sort(np.concatenate([*at_s, np.empty(0)]))

    @property
    def most_events(self) -> int:
        """Return the number of events in the longest stream."""
        return 1 + max(map(len, self._gaps_s), default=0)

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
        ended_s = self._ended_s[~self._is_open]
        count, from_s = np.count_nonzero(ended_s >= UNSETTLED * self.load_s), UNSETTLED * self.load_s
        return float(count / (self.load_s - from_s)) if self.load_s else None

    @cached_property
    def at_once(self) -> float | None:
        """Return the mean number of streams that have had their first event and have not ended."""
        begun_s = (self._sent_s + self._first_s)[self._has_event]
        ended_s = np.minimum(self._ended_s[self._has_event], self.load_s)
        return float(np.maximum(ended_s - begun_s, 0).sum() / self.load_s) if self.load_s else None

    @cached_property
    def first_events(self) -> CensoredSamples:
        """Return the times from each request to its first event, which includes the connection.

        Streams without any event at the end of the load are censored.
        """
        waited_s = np.where(self._has_event, self._first_s, np.maximum(self._ended_s - self._sent_s, 0))
        return CensoredSamples(waited_s, self._has_event)

    @cached_property
    def gaps(self) -> CensoredSamples:
        """Return the times between two events of the same stream, of all streams.

        The gap between the last event of an open stream and the end of the load is censored.
        """
        gaps_s = np.concatenate([*self._gaps_s, np.empty(0)])
        is_cut = self._is_open & self._has_event
        open_s = np.maximum((self._ended_s - self._sent_s - self._first_s - self._lasts_s)[is_cut], 0)
        answered = np.concatenate((np.ones(len(gaps_s), dtype=bool), np.zeros(len(open_s), dtype=bool)))
        return CensoredSamples(np.concatenate((gaps_s, open_s)), answered)


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
