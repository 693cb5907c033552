"""Measure when a task ran, and how much CPU time it used."""

import time
from typing import NamedTuple

DENSE = 0.9  # a span with this share of CPU time counts as all CPU time
MOST_STRETCHES = 200  # more would not fit into a header of about 4 KB


class Stretch(NamedTuple):
    """A time in which a task ran without pausing of its own will; others may have been let in by the system."""

    from_s: float  # `time.monotonic`
    to_s: float
    cpu_s: float  # of this thread

    def is_dense(self) -> bool:
        """Whether it computed all the time."""
        return self.cpu_s >= DENSE * (self.to_s - self.from_s)


class Stopwatch:
    """Stopped where the task yields, started again where it goes on."""

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []

    def start(self) -> None:
        """The task goes on."""
        self._from_s, self._cpu_s = time.monotonic(), time.thread_time()

    def stop(self) -> None:
        """The task pauses or has ended."""
        new = Stretch(self._from_s, time.monotonic(), time.thread_time() - self._cpu_s)
        if self.stretches and _joined(self.stretches[-1], new).is_dense():
            self.stretches[-1] = _joined(self.stretches[-1], new)
        else:
            self.stretches.append(new)
        if len(self.stretches) > MOST_STRETCHES:
            pairs = zip(self.stretches[::2], self.stretches[1::2], strict=False)
            self.stretches = [_joined(*pair) for pair in pairs] + self.stretches[len(self.stretches) // 2 * 2 :]

    def cpu_s(self) -> float:
        """All that it computed."""
        return sum(stretch.cpu_s for stretch in self.stretches)


def _joined(one: Stretch, other: Stretch) -> Stretch:
    return Stretch(one.from_s, other.to_s, one.cpu_s + other.cpu_s)
