"""Run the task alone, once for each line on stdin, and print its duration.

Each line of output is `time.monotonic at the start,wall seconds,CPU seconds,number of the CPU`. The script exits at the
end of stdin.

usage: python -P time_task_alone.py TASK
"""

import os
import sys
from pathlib import Path

from common.task import perform


def main(spec: str) -> None:
    """Perform the task once to warm it up, then once for each line on stdin."""
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # discard the output of the task
    perform(spec)
    for _ in sys.stdin:
        run = perform(spec)
        print(run.started_s, run.finished_s - run.started_s, run.cpu_s, last_cpu(), sep=",", file=lines, flush=True)


def last_cpu() -> int:
    """Return the CPU that this process ran on last (proc(5), field 39 of stat), or -1 if it is unknown."""
    try:
        return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[36])
    except (OSError, ValueError, IndexError):
        return -1


if __name__ == "__main__":
    main(sys.argv[1])
