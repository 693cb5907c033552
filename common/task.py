"""The long task: finding it, performing it, and telling what came of it.

A task is a plain function, or a generator function that yields where it could let others run:
`yield 0` or just `yield` between two slices of computing, `yield 0.2` to wait 0.2 s.
"""

import asyncio
import importlib
import inspect
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cache
from typing import cast

from common.builtin_tasks import BUILTIN_TASKS
from common.errors import BadInputError, one_line
from common.stopwatch import Stopwatch, Stretch
from common.task_module import import_from

_MAIN_THREAD = threading.get_native_id()  # greenlets all run in it, whatever name gevent gives them


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One run of a task. Times are `time.monotonic`: one clock for all processes of a machine."""

    answer: str
    started_s: float
    finished_s: float
    cpu_s: float
    worker: str  # "process id/thread name"
    stretches: tuple[Stretch, ...] = ()  # when it ran, and how much it computed then


class UnknownTaskError(BadInputError):
    """There is no such task; the message is one line that says what would be one."""


class TaskError(RuntimeError):
    """The task raised. Carries only text, so that it crosses to another process whatever was raised."""


def perform(spec: str) -> TaskRun:
    """Performs the task and waits in it as ordinary code does: nothing else runs on this thread meanwhile.

    Raises:
        UnknownTaskError: `spec` names no task.
        TaskError: the task raised; its message is one line.
    """
    steps = _Steps(spec)
    sleep_gives_way = not inspect.isbuiltin(time.sleep)  # gevent has patched it
    for pause_s in steps:
        # The system makes threads and processes take turns; only greenlets need to be asked. For the others
        # sleep(0) would be a waste: it takes 70 µs on Linux, where a timer is never exact.
        if pause_s or sleep_gives_way:
            time.sleep(pause_s)
    return steps.run


async def perform_in_slices(spec: str) -> TaskRun:
    """Performs the task on the event loop and lets others run wherever the task yields; raises as `perform`."""
    steps = _Steps(spec)
    for pause_s in steps:
        await asyncio.sleep(pause_s)
    return steps.run


class _Steps:
    """Iterating performs the task from pause to pause and gives each pause in seconds; then `run` tells of it."""

    def __init__(self, spec: str) -> None:
        self._function = resolve(spec)
        self.run: TaskRun

    def __iter__(self) -> Generator[float, None, None]:
        stopwatch = Stopwatch()
        stopwatch.start()
        try:
            answer = self._function()
            if inspect.isgenerator(answer):
                steps = cast("Iterator[float | None]", answer)
                while True:
                    try:
                        pause_s = next(steps) or 0.0  # a bare `yield` gives None
                    except StopIteration as end:
                        answer = end.value
                        break
                    stopwatch.stop()  # what others compute in the pause is not this task's
                    yield pause_s
                    stopwatch.start()
            text = str(answer)
        except (Exception, SystemExit) as error:
            raise TaskError(one_line(error)) from None
        stopwatch.stop()
        ran = tuple(stopwatch.stretches)
        self.run = TaskRun(text, ran[0].from_s, ran[-1].to_s, stopwatch.cpu_s(), _this_worker(), ran)


def _this_worker() -> str:
    interpreter = _interpreter_number()
    if interpreter:
        name = f"Interpreter-{interpreter}"
    elif threading.get_native_id() == _MAIN_THREAD:
        name = "MainThread"
    else:
        name = threading.current_thread().name
    return f"{os.getpid()}/{name}"


@cache
def _interpreter_number() -> int:
    """0 in the main interpreter, and always before Python 3.14."""
    try:
        return int(importlib.import_module("concurrent.interpreters").get_current().id)
    except ImportError:
        return 0


@cache
def resolve(spec: str) -> Callable[[], object]:
    """The function of a task: a name from `BUILTIN_TASKS`, or `module:function`, seen from the current folder.

    Raises:
        UnknownTaskError: with one line that says why not, and what to try.
    """
    if spec in BUILTIN_TASKS:
        return BUILTIN_TASKS[spec]
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise UnknownTaskError(
            f"unknown task {spec!r}: expected {', '.join(BUILTIN_TASKS)}, or your own as module:function"
        )
    function = _import(module, name, spec)
    _refuse_what_cannot_be_called(function, spec)
    return function


def _import(module: str, name: str, spec: str) -> Callable[[], object]:
    here = os.getcwd()  # noqa: PTH109 (sys.path holds strings)
    try:
        found: object = import_from(here, module)
        for attribute in name.split("."):
            found = getattr(found, attribute)
    except (Exception, SystemExit) as error:
        raise UnknownTaskError(
            f"cannot import task {spec!r} from {here}: {one_line(error)}; expected module:function"
        ) from None
    if not callable(found):
        raise UnknownTaskError(f"task {spec!r} is a {type(found).__name__}, not a function that can be called")
    return found


def _refuse_what_cannot_be_called(function: Callable[[], object], spec: str) -> None:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise UnknownTaskError(
            f"task {spec!r} is an async function; expected a plain function, or a generator function "
            "that yields the seconds it wants to wait"
        )
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise UnknownTaskError(f"task {spec!r} can't be called without arguments: {error}") from None
    except ValueError:
        pass  # some builtins have no signature that could be checked
