"""Tasks for a drill: of any length, reporting when they start, and one that never ends on demand.

What they tell and what is set are files in the folder that the variable UNDER_SIEGE_DRILL names.
"""

import contextlib
import os
import time
from collections.abc import Generator

FOLDER = "UNDER_SIEGE_DRILL"
ENDLESS, BEGUN, LASTS = "endless-", "begun", "lasts"
SLICE_S = 0.002


def compute(cpu_s: float) -> Generator[float, None, str]:
    """Computes for so many seconds of CPU time, in slices; for ever and without any, if that is set for one more.

    If another length is set, for that long.
    """
    cpu_s = _set_length(cpu_s)
    _begin()
    if _is_endless():
        while True:
            sum(range(500))
    for _ in range(max(1, round(cpu_s / SLICE_S))):
        ends_s = time.thread_time() + SLICE_S
        while time.thread_time() < ends_s:
            sum(range(500))
        yield 0
    return "done"


def _begin() -> None:
    """Tells that a task has begun: a byte in a file."""
    if folder := os.environ.get(FOLDER):
        with contextlib.suppress(OSError):
            file = os.open(os.path.join(folder, BEGUN), os.O_WRONLY | os.O_APPEND)  # noqa: PTH118 (it has to be quick)
            os.write(file, b".")
            os.close(file)


def _set_length(usual_s: float) -> float:
    """How long it is to be: one server has tasks of several lengths."""
    if folder := os.environ.get(FOLDER):
        with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, LASTS)) as file:  # noqa: PTH118, PTH123
            return float(file.read())
    return usual_s


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
