"""The speed probe: time the same small piece of work on every CPU, 50 times a second.

Prints a line for each sample, `time.monotonic,cpu,seconds`, and exits when its output is closed. The seconds are those
of the thread's CPU clock: the wall clock would show how busy the CPU is, not how fast.

usage: python -P cpu_speed_loop.py [--work]        --work prints what the work is, and ends
"""

import gc
import os
import sys
import time
from typing import NoReturn

from common.cpus import usable_cpu_numbers

# Half of the variance of the speed lasts less than 50 ms: with 20 samples a second the mean speed of a siege is half as
# exact, and with 100 the probe takes 1 % of each CPU.
INTERVAL_S = 0.02
# Long multiplication, some 0.02 ms each time, of which the fastest counts: a timer interrupt takes 0.04 ms of whatever
# it hits. A loop of Python's own would do, but its speed depends on where in memory a process happens to have it.
TIMES, PRODUCTS = 3, 5
ONE, OTHER = 3**1131, 7**638
WORK = f"{TIMES} x {PRODUCTS} products of {ONE.bit_length()} bits"  # what makes beats comparable, beside the Python


def main() -> None:
    """Fork a process for each usable CPU, pinned to it; their samples are spread evenly over the interval."""
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
    """Return the CPU time of the work: the least of some runs, after one that warms the caches."""
    _work()
    took_s = []
    for _ in range(TIMES):
        began_s = time.thread_time()
        _work()
        took_s.append(time.thread_time() - began_s)
    return min(took_s)


def _work() -> None:
    for _ in range(PRODUCTS):
        ONE * OTHER


if __name__ == "__main__":
    if sys.argv[1:] == ["--work"]:
        print(WORK)  # noqa: T201
    else:
        main()
