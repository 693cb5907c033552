"""Tasks of all kinds, as a user might bring them.

Those that compute hold the GIL as a loop of Python does, but need no CPU: many run at once, beside other tests.
"""

import ctypes
import os
import sys
import time
from pathlib import Path

from common.builtin_tasks import BUILTIN_TASKS


def tell_that_it_has_begun():
    if "BEGUN" in os.environ:
        Path(os.environ["BEGUN"]).touch()


def chosen():
    """Whatever the file says that CHOSEN names: so one server can be asked for all tasks."""
    return {**BUILTIN_TASKS, **globals()}[Path(os.environ["CHOSEN"]).read_text()]()


def short():
    return "short"


def a_blink():
    time.sleep(0.05)
    return "done"


def a_moment():
    tell_that_it_has_begun()
    time.sleep(0.2)
    return "at last"


def a_moment_of_computing():
    return _computed(0.2)


def half_a_second():
    tell_that_it_has_begun()
    time.sleep(0.5)
    return "at last"


def half_a_second_of_computing():
    return _computed(0.5)


def _computed(seconds):
    tell_that_it_has_begun()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ctypes.PyDLL(None).usleep(1000)  # a call that does not let go of the GIL; another thread may get it after that
    return "computed"


def waits_long():
    time.sleep(1.2)
    return "waited"


def half_a_minute():
    tell_that_it_has_begun()
    time.sleep(30)


def half_a_minute_of_computing():
    return _computed(30)


def in_slices():
    yield 0
    yield 0.05
    yield 0
    return 42


def yields_nothing():
    yield
    yield 0.05
    yield
    return 42


def raises():
    raise ValueError("the first line\nand a second one")


def raises_later():
    yield 0
    raise KeyError("later")


class AwkwardError(Exception):
    """Can be pickled, but not unpickled: it breaks a process pool that lets it through."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def raises_awkwardly():
    raise AwkwardError("this", "that")


def exits():
    sys.exit("a task that thinks it is a program")


def says_umlauts():
    return "größer als ✓"


def prints():
    time.sleep(0.05)
    print("printed by the task")
    return "after printing"


async def is_async():
    return "never"


def needs_arguments(one, two):
    return one + two


NOT_CALLABLE = 42
