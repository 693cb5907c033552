"""The metronome: the same small work on every CPU, 20 times a second: how fast the machine is, while it is measured.

Prints a line for each beat, `time.monotonic,cpu,seconds`, and ends when nobody reads it any more. The seconds are of
the thread's own CPU clock: the wall clock would see how busy the CPU is, and not how fast.
"""

import gc
import os
import time
from typing import NoReturn

from common.cpus import usable_cpu_numbers

INTERVAL_S = 0.05
WARM, WORK = 500, 1500  # rounds of the loop: 0.05 ms of work, after some that fetches what it needs into the caches


def main() -> None:
    """A process for each CPU that may be used, pinned to it; their beats are spread evenly over the interval."""
    cpus = usable_cpu_numbers()
    began_s = time.monotonic()
    for place, cpu in enumerate(cpus[1:], 1):
        if os.fork() == 0:  # nothing here has a thread or a lock that could break
            _beat_for_ever(cpu, began_s + place * INTERVAL_S / len(cpus))
    _beat_for_ever(cpus[0], began_s)


def _beat_for_ever(cpu: int, due_s: float) -> NoReturn:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cpu})
    gc.disable()
    while True:
        time.sleep(max(0.0, due_s - time.monotonic()))
        at_s, took_s = time.monotonic(), beat()
        try:
            os.write(1, f"{at_s:.4f},{cpu},{took_s:.9f}\n".encode())
        except OSError:  # the reader is gone
            os._exit(0)
        while due_s <= time.monotonic():
            due_s += INTERVAL_S


def beat() -> float:
    """CPU seconds that the work took: integer arithmetic in pure Python, as in a task that computes."""
    _work(WARM)
    began_s = time.thread_time()
    _work(WORK)
    return time.thread_time() - began_s


def _work(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number % 7
    return total


if __name__ == "__main__":
    main()
