"""Tasks of all kinds, as a user might bring them.

Those that compute hold the GIL as a loop of Python does, but need no CPU: many run at once, beside other tests.
"""

import asyncio
import atexit
import ctypes
import os
import sys
import time
from pathlib import Path

from common.task.builtin import BUILTIN_TASKS, is_prime


def tell_that_it_has_ended(path):
    """One more line in that file; not of a process that was killed, or ended at once."""
    with path.open("a") as ended:
        ended.write(f"{os.getpid()}\n")


if "ENDED" in os.environ:
    atexit.register(tell_that_it_has_ended, Path(os.environ["ENDED"]))


def tell_that_it_has_begun():
    """One more character in the file that BEGUN names."""
    if "BEGUN" in os.environ:
        with Path(os.environ["BEGUN"]).open("a") as begun:
            begun.write("x")


def chosen():
    """Whatever the file says that CHOSEN names: so one server can be asked for all tasks."""
    return {**BUILTIN_TASKS, **globals()}[Path(os.environ["CHOSEN"]).read_text()]()


def short():
    return "short"


def a_blink():
    time.sleep(0.05)
    return "done"


def a_little_work():
    """Waits for 40 ms and computes for some 10 ms: work, and not a time, so that it takes longer on a slower CPU."""
    time.sleep(0.04)
    return sum(is_prime(number) for number in range(2, 9_000))


def a_moment():
    tell_that_it_has_begun()
    time.sleep(0.2)
    return "at last"


def a_moment_of_computing():
    return _computed(0.2)


def told_when_done():
    """Waits in slices and then adds a line to the file that DONE names."""
    tell_that_it_has_begun()
    yield 0.3
    with Path(os.environ["DONE"]).open("a") as done:
        done.write("x")
    return "at last"


def waits_to_be_told():
    """Wait for the file that TOLD names, then add a character to the file that DONE names, if that is set."""
    tell_that_it_has_begun()
    while not Path(os.environ["TOLD"]).exists():
        time.sleep(0.01)
    if "DONE" in os.environ:
        with Path(os.environ["DONE"]).open("a") as done:
            done.write("x")
    return "told"


def waits_in_slices():
    """The same, and gives way meanwhile."""
    tell_that_it_has_begun()
    while not Path(os.environ["TOLD"]).exists():
        yield 0.01
    return "told"


def ends_its_process():
    os._exit(3)


def half_a_second():
    tell_that_it_has_begun()
    time.sleep(0.5)
    return "at last"


def half_a_second_of_computing():
    return _computed(0.5)


_hold_the_gil = ctypes.PyDLL(None).usleep  # a call that does not let go of it; another thread may get it after that


def _computed(seconds):
    tell_that_it_has_begun()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _hold_the_gil(3000)  # microseconds
    return "computed"


def _burnt(seconds):
    """Computes for so much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(200))


def half_a_minute():
    tell_that_it_has_begun()
    time.sleep(30)


def half_a_minute_of_computing():
    return _computed(30)


def moments_then_half_a_minute():
    a_moment() if _may_be_short() else half_a_minute()
    return "at last"


def moments_then_half_a_minute_of_computing():
    return a_moment_of_computing() if _may_be_short() else half_a_minute_of_computing()


def _may_be_short():
    """For the first three that begin."""
    begun = Path(os.environ["BEGUN"])
    return not begun.exists() or len(begun.read_text()) < 3


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


def raises_generator_exit():
    raise GeneratorExit("by hand")


def raises_keyboard_interrupt():
    yield 0
    raise KeyboardInterrupt("by hand")


def says_umlauts():
    return "größer als ✓"


def prints():
    time.sleep(0.05)
    print("9.0,9.0,9.0,9\nand no end of a line", end="", flush=True)  # as if it were told of a run
    return "after printing"


async def is_async_generator():
    yield "never"


def says_all(*words, **named):
    """What it was called with, and never the same list twice."""
    said = repr((words, named))
    for one in words:
        if isinstance(one, list):
            one.append("changed")
    return said


def needs_arguments(one, two):
    return one + two


NOT_CALLABLE = 42


async def awaits():
    """Computes some 5 ms and waits 0.15 s in two steps."""
    _burnt(0.0025)
    await asyncio.sleep(0.05)
    _burnt(0.0025)
    await asyncio.sleep(0.1)
    return 42


async def awaits_others():
    """Computes in tasks of its own, which may run while others of the loop do."""

    async def part():
        await asyncio.sleep(0)
        _burnt(0.02)
        return 1

    return sum(await asyncio.gather(part(), part()))


async def raises_in_a_group():
    async def fail():
        await asyncio.sleep(0.01)
        raise KeyError("in a group")

    async with asyncio.TaskGroup() as group:
        group.create_task(fail())
        await asyncio.sleep(10)


async def cancels_itself():
    asyncio.current_task().cancel()
    await asyncio.sleep(10)


async def raises_cancelled():
    raise asyncio.CancelledError("by hand")


async def raises_generator_exit_later():
    await asyncio.sleep(0)
    raise GeneratorExit("by hand")


async def exits_in_a_task():
    async def leave():
        sys.exit("from within")

    await asyncio.gather(asyncio.create_task(leave()))


async def computes_in_async_slices():
    for _ in range(40):
        _burnt(0.005)
        await asyncio.sleep(0)
    return "done"


async def exits_later():
    await asyncio.sleep(0.01)
    sys.exit("at last")


async def is_left_alone():
    """Starts something that it does not wait for."""
    asyncio.current_task().friend = asyncio.create_task(asyncio.sleep(60))
    return "done"


async def times_out():
    async with asyncio.timeout(0.01):
        await asyncio.sleep(10)
