"""Define the task of a drill. The task can have any duration, reports its start, and can be made endless.

The bench and the task communicate through files in the directory that the environment variable UNDER_SIEGE_DRILL names.
The folder of this file is on the servers' PYTHONPATH and has no other module, so that none hides one of the user's.
"""

import contextlib
import os
import time
from collections.abc import Generator

FOLDER = "UNDER_SIEGE_DRILL"
ENDLESS, BEGUN, LASTS = "endless-", "begun", "lasts"
SLICE_S = 0.002


def compute(cpu_s: float) -> Generator[float, None, str]:
    """Compute in slices for `cpu_s`, or for the CPU time in the file `lasts` if it exists.

    If a file requests an endless task, compute forever without yielding.
    """
    cpu_s = _length_s(cpu_s)
    _report_start()
    if _is_endless():
        while True:
            sum(range(500))
    for _ in range(max(1, round(cpu_s / SLICE_S))):
        ends_s = time.thread_time() + SLICE_S
        while time.thread_time() < ends_s:
            sum(range(500))
        yield 0
    return "done"


def _report_start() -> None:
    if directory := os.environ.get(FOLDER):
        with contextlib.suppress(OSError):
            file = os.open(os.path.join(directory, BEGUN), os.O_WRONLY | os.O_APPEND)  # noqa: PTH118 (importing pathlib is slow)
            os.write(file, b".")
            os.close(file)


def _length_s(default_s: float) -> float:
    if directory := os.environ.get(FOLDER):
        with contextlib.suppress(OSError, ValueError), open(os.path.join(directory, LASTS)) as file:  # noqa: PTH118, PTH123
            return float(file.read())
    return default_s


def _is_endless() -> bool:
    """Return whether a file requests an endless task, and remove this file."""
    if directory := os.environ.get(FOLDER):
        with contextlib.suppress(OSError):
            for name in os.listdir(directory):  # noqa: PTH208
                if name.startswith(ENDLESS):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(os.path.join(directory, name))  # noqa: PTH108, PTH118
                        return True
    return False
