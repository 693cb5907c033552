"""How long a load tool is awake: computing, or waiting for a CPU. One that hardly ever sleeps is itself the limit.

Its CPU time alone does not tell: beside a server that takes every CPU it gets less of them than it could use.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
FEWEST_LOOKS = 5


class Wakefulness:
    """Looks at a process, its threads and its children; Linux counts for each thread how long it ran and waited."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._looks: list[tuple[float, float]] = []  # when, and seconds awake since it was started

    def look(self) -> None:
        """Writes down how long it was awake until now, if it is still there."""
        awake_s = sum(sum(scheduled(pid)) for pid in _family(self._pid))
        if awake_s and awake_s >= (self._looks[-1][1] if self._looks else 0.0):
            self._looks.append((time.monotonic(), awake_s))

    def cpus(self, last_s: float) -> float | None:
        """How many CPUs would have kept it awake that long, in the last so many seconds; None if that isn't known."""
        if not self._looks:
            return None
        looks = [look for look in self._looks if look[0] >= self._looks[-1][0] - last_s]
        if len(looks) < FEWEST_LOOKS:
            return None
        (from_s, before_s), (to_s, after_s) = looks[0], looks[-1]
        return (after_s - before_s) / (to_s - from_s) if to_s > from_s else None


def _family(pid: int) -> Iterator[int]:
    yield pid
    for child in _words(PROC / str(pid) / "task" / str(pid) / "children"):
        yield from _family(int(child))


class Scheduled(NamedTuple):
    """What the scheduler counts of a process."""

    ran_s: float
    waited_s: float  # for a CPU


def scheduled(pid: int) -> Scheduled:
    """Return the sums over all threads that there are; zeros where the system does not count."""
    try:
        threads = list((PROC / str(pid) / "task").iterdir())
    except OSError:
        return Scheduled(0.0, 0.0)
    told = [_words(thread / "schedstat") for thread in threads]  # nanoseconds on a CPU, and waiting for one
    known = [(int(words[0]), int(words[1])) for words in told if len(words) >= 2]
    return Scheduled(sum(ran for ran, _ in known) / 1e9, sum(waited for _, waited in known) / 1e9)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # it has ended, or this is not Linux
        return []
