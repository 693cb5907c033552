"""Measure when a task ran, and how much CPU time it used."""

import time
from typing import NamedTuple

DENSE = 0.9  # a span with this share of CPU time counts as all CPU time
MOST_SPANS = 200  # more would not fit into a header of 4 KB


class ComputeSpan(NamedTuple):
    """A time in which a task did not pause; the operating system may still have run others."""

    from_s: float  # `time.monotonic`
    to_s: float
    cpu_s: float  # CPU time of this thread

    def is_dense(self) -> bool:
        """Return whether the task computed (almost) all the time."""
        return self.cpu_s >= DENSE * (self.to_s - self.from_s)


class Stopwatch:
    """Records compute spans: stopped when the task yields, started when it resumes."""

    def __init__(self) -> None:
        self.spans: list[ComputeSpan] = []

    def start(self) -> None:
        self._from_s, self._cpu_s = time.monotonic(), time.thread_time()

    def stop(self) -> None:
        """End a span; merge it with the one before if both are dense, and pairs of spans if there are too many."""
        new = ComputeSpan(self._from_s, time.monotonic(), time.thread_time() - self._cpu_s)
        if self.spans and _joined(self.spans[-1], new).is_dense():
            self.spans[-1] = _joined(self.spans[-1], new)
        else:
            self.spans.append(new)
        if len(self.spans) > MOST_SPANS:
            pairs = zip(self.spans[::2], self.spans[1::2], strict=False)
            self.spans = [_joined(*pair) for pair in pairs] + self.spans[len(self.spans) // 2 * 2 :]

    def cpu_s(self) -> float:
        """Return the CPU time of all spans."""
        return sum(span.cpu_s for span in self.spans)


def _joined(one: ComputeSpan, other: ComputeSpan) -> ComputeSpan:
    return ComputeSpan(one.from_s, other.to_s, one.cpu_s + other.cpu_s)
