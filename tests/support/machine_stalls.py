"""Measure stalls of the machine, which occur, for example, if its host takes CPUs away."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator

_WATCH = """
import select, sys, time
longest_s, last_s = 0.0, time.monotonic()
ended = False
while not ended:
    ended = select.select([sys.stdin], [], [], 0.01)[0]
    now_s = time.monotonic()
    longest_s, last_s = max(longest_s, now_s - last_s), now_s
print(longest_s)
"""


@contextlib.contextmanager
def watching() -> Iterator[Callable[[], float]]:
    """Yield a function that, after the `with` block, returns the longest stall of an idle process in seconds."""
    output: list[float] = []
    with subprocess.Popen(
        [sys.executable, "-S", "-c", _WATCH], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as watcher:
        try:
            yield lambda: output[0]
        finally:
            output.append(float(watcher.communicate()[0]))
