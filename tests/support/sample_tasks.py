"""Tasks of all kinds, as users might write them.

Most CPU-bound tasks are simulated: they hold the GIL, but use almost no CPU time, so many can run at the same time.
"""

import asyncio
import atexit
import ctypes
import os
import sys
import time
from pathlib import Path

from common.task import BUILTIN_TASKS, is_prime


def record_exit(path):
    """Add a line to the file; atexit calls this function when the process exits normally."""
    with path.open("a") as ended:
        ended.write(f"{os.getpid()}\n")


if "ENDED" in os.environ:
    atexit.register(record_exit, Path(os.environ["ENDED"]))


def record_start():
    """Add a character to the file that the environment variable BEGUN names, if it is set."""
    if "BEGUN" in os.environ:
        with Path(os.environ["BEGUN"]).open("a") as begun:
            begun.write("x")


def chosen():
    """Run the task whose name is in the file that CHOSEN names, so that tests can change the task of a server."""
    return {**BUILTIN_TASKS, **globals()}[Path(os.environ["CHOSEN"]).read_text()]()


def short():
    return "short"


def a_blink():
    time.sleep(0.05)
    return "done"


def a_little_work():
    """Wait for 40 ms, then do a fixed amount of computation, which takes about 10 ms, or more on a slow CPU."""
    time.sleep(0.04)
    return sum(is_prime(number) for number in range(2, 9_000))


def a_moment():
    record_start()
    time.sleep(0.2)
    return "at last"


def waits_for_file():
    """Wait for the file that TOLD names; then, if DONE is set, add a character to the file that DONE names."""
    record_start()
    while not Path(os.environ["TOLD"]).exists():
        time.sleep(0.01)
    if "DONE" in os.environ:
        with Path(os.environ["DONE"]).open("a") as done:
            done.write("x")
    return "told"


def waits_for_file_in_slices():
    """Wait for the file that TOLD names, and yield between checks."""
    record_start()
    while not Path(os.environ["TOLD"]).exists():
        yield 0.01
    return "told"


def ends_its_process():
    os._exit(3)


def half_a_second():
    record_start()
    time.sleep(0.5)
    return "at last"


def half_a_second_of_computing():
    return _hold_gil_for(0.5)


_hold_the_gil = ctypes.PyDLL(None).usleep  # PyDLL does not release the GIL during the call


def _hold_gil_for(seconds):
    record_start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _hold_the_gil(3000)  # microseconds
    return "computed"


def computes_until_told():
    record_start()
    while not Path(os.environ["TOLD"]).exists():
        _hold_the_gil(3000)
    return "told"


def _use_cpu(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))


def half_a_minute():
    record_start()
    time.sleep(30)


def half_a_minute_of_computing():
    return _hold_gil_for(30)


def _fewer_than_three_have_begun():
    return len(Path(os.environ["BEGUN"]).read_text()) < 3


def in_slices():
    yield 0
    yield 0.05
    yield 0
    return 42


def pauses_a_thousand_times():
    for _ in range(1000):
        sum(range(1000))
        yield 0.00001
    return 1000


def yields_nothing():
    yield
    yield 0.0
    yield
    return 42


def raises():
    raise ValueError("the first line\nand a second one")


def raises_later():
    yield 0
    raise KeyError("later")


class AwkwardError(Exception):
    """An exception that can be pickled but not unpickled, which would break a process pool."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def raises_awkwardly():
    raise AwkwardError("this", "that")


def exits():
    sys.exit("a task that thinks it is a program")


def raises_keyboard_interrupt():
    yield 0
    raise KeyboardInterrupt("by hand")


def returns_umlauts():
    return "größer als ✓"


def prints():
    time.sleep(0.05)
    print("9.0,9.0,9.0,9\nand no end of a line", end="", flush=True)  # looks like a line of results
    return "after printing"


async def is_async_generator():
    yield "never"


def returns_its_arguments(*words, **named):
    """Append to each argument that is a list, and return the text of the original arguments."""
    said = repr((words, named))
    for one in words:
        if isinstance(one, list):
            one.append("changed")
    return said


def needs_arguments(one, two):
    return one + two


NOT_CALLABLE = 42


async def awaits():
    """Compute for about 5 ms and wait for 0.15 s in two steps."""
    _use_cpu(0.0025)
    await asyncio.sleep(0.05)
    _use_cpu(0.0025)
    await asyncio.sleep(0.1)
    return 42


async def raises_in_a_group():
    async def fail():
        await asyncio.sleep(0.01)
        raise KeyError("in a group")

    async with asyncio.TaskGroup() as group:
        group.create_task(fail())
        await asyncio.sleep(10)


async def raises_generator_exit_later():
    await asyncio.sleep(0)
    raise GeneratorExit("by hand")


async def meets_two_others():
    """Compute in slices, and await between them, until three runs of this task have begun."""
    record_start()
    while _fewer_than_three_have_begun():
        _use_cpu(0.002)
        await asyncio.sleep(0)
    return "met"


async def exits_later():
    await asyncio.sleep(0.01)
    sys.exit("at last")


async def times_out():
    async with asyncio.timeout(0.01):
        await asyncio.sleep(10)
