"""The spans of requests: when each was sent, when it was answered, and whether rightly. As columns: there are many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


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
        """The share of each that lies between the two times; nothing of one whose answer was not a good one."""
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
    """The requests of a closed loop, in the order of their users and of time.

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
