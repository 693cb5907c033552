"""Run the speed probe: time the same short computation on every CPU, 50 times a second.

The script reports each sample as `[time.monotonic, cpu, seconds]`, and exits when its output is closed. The seconds are
the thread's CPU time, because wall-clock time also includes periods in which other threads use the CPU.

usage: python -P cpu_speed_loop.py
"""

import gc
import os
import time
from typing import NoReturn

# Half of the variance of the speed comes from changes that last less than 50 ms. With 20 samples a second, the error of
# the mean speed of a siege would double. With 100 samples a second, the probe would use 1 % of each CPU.
INTERVAL_S = 0.02
# Each run of `_work` takes about 0.02 ms. The fastest of 3 runs counts, because a timer interrupt adds 0.04 ms. A
# loop in Python is unsuitable, because its speed depends on its memory address, which differs between processes.
TIMES, PRODUCTS = 3, 5
ONE, OTHER = 3**1131, 7**638
# Samples are comparable if WORK and the version of Python match.
WORK = f"{TIMES} x {PRODUCTS} products of {ONE.bit_length()} bits"


def main() -> None:
    """Run a process on each usable CPU, and spread the samples of all processes evenly over the interval."""
    cpus = sorted(os.sched_getaffinity(0))
    began_s = time.monotonic()
    for index, cpu in enumerate(cpus[1:], 1):
        if os.fork() == 0:  # safe, because this process has no threads or locks
            _sample_forever(cpu, began_s + index * INTERVAL_S / len(cpus))
    _sample_forever(cpus[0], began_s)


def _sample_forever(cpu: int, due_s: float) -> NoReturn:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cpu})
    gc.disable()
    while True:
        time.sleep(max(0.0, due_s - time.monotonic()))
        at_s, took_s = time.monotonic(), sample()
        try:
            os.write(1, f"[{at_s:.4f},{cpu},{took_s:.9f}]\n".encode())
        except OSError:  # the output was closed
            os._exit(0)
        while due_s <= time.monotonic():
            due_s += INTERVAL_S


def sample() -> float:
    """Return the CPU time of the computation: the fastest of TIMES runs, after one run that warms the caches."""
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
    main()
