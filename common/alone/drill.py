"""Tasks for a drill: of a length that is asked for, told when they begin, and one that never ends when it is set.

What they tell and what is set are files in the folder that the variable UNDER_SIEGE_DRILL names.
"""

import contextlib
import os
import time

FOLDER = "UNDER_SIEGE_DRILL"
ENDLESS, BEGUN = "endless-", "begun"


def compute(cpu_s: float) -> str:
    """Computes for so many seconds of CPU time; for ever, if that is set and nobody else has taken it."""
    _begin()
    ends_s = time.thread_time() + (float("inf") if _is_endless() else cpu_s)
    while time.thread_time() < ends_s:
        sum(range(500))
    return "done"


def _begin() -> None:
    """Tells that a task has begun: a byte in a file."""
    if folder := os.environ.get(FOLDER):
        with contextlib.suppress(OSError):
            file = os.open(os.path.join(folder, BEGUN), os.O_WRONLY | os.O_APPEND)  # noqa: PTH118 (it has to be quick)
            os.write(file, b".")
            os.close(file)


def _is_endless() -> bool:
    """Whether this is to be one: each file is for one task."""
    if folder := os.environ.get(FOLDER):
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):  # noqa: PTH208 (it has to be quick)
                if name.startswith(ENDLESS):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.join(folder, name))  # noqa: PTH108, PTH118
                        return True
    return False
