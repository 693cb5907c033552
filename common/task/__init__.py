"""The long task: finding it, performing it, and telling what came of it.

A task is a plain function, or a generator function that yields where it could let others run:
`yield 0` or just `yield` between two slices of computing, `yield 0.2` to wait 0.2 s. Or it is an `async def`.

asyncio is imported where it is needed: that takes twice as long as all else here, in each process that performs a task.
"""

import importlib
import inspect
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

from common.errors import one_line
from common.task.builtin import BUILTIN_TASKS
from common.task.spec import Arguments, BadCallError, Call, UnknownTaskError, import_from, split
from common.task.stopwatch import Stopwatch, Stretch

__all__ = [
    "BadCallError",
    "TaskError",
    "TaskRun",
    "UnknownTaskError",
    "as_text",
    "perform",
    "perform_in_slices",
    "resolve",
]

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


class TaskError(RuntimeError):
    """The task raised. Carries only text, so that it crosses to another process whatever was raised."""


def _never() -> bool:
    return False


def perform(spec: str, unwanted: Callable[[], bool] = _never) -> TaskRun:
    """Performs the task and waits in it as ordinary code does: nothing else runs on this thread meanwhile.

    Args:
        spec: its name.
        unwanted: whether nobody waits for it any more; asked wherever the task yields.

    Raises:
        UnknownTaskError: `spec` names no task.
        TaskError: the task raised, or is unwanted; its message is one line.
    """
    attempt = _Attempt(spec)
    sleep_gives_way = not inspect.isbuiltin(time.sleep)  # gevent has patched it
    with _told_in_one_line():
        for pause_s in attempt.pauses():
            if unwanted():
                raise TaskError("nobody waits for it any more")
            # The system makes threads and processes take turns; only greenlets need to be asked. For the others
            # sleep(0) would be a waste: it takes 70 µs on Linux, where a timer is never exact.
            if pause_s or sleep_gives_way:
                time.sleep(pause_s)
        if attempt.coroutine is not None:
            from common.task.coroutine import on_a_loop_of_its_own

            attempt.answer = on_a_loop_of_its_own(attempt.coroutine, attempt.stopwatch)
    return attempt.run()


async def perform_in_slices(spec: str) -> TaskRun:
    """Performs the task on the event loop and lets others run wherever it yields or awaits; raises as `perform`."""
    import asyncio

    attempt = _Attempt(spec)
    with _told_in_one_line():
        for pause_s in attempt.pauses():
            await asyncio.sleep(pause_s)
        if attempt.coroutine is not None:
            from common.task.coroutine import on_this_loop

            attempt.answer = await on_this_loop(attempt.coroutine, attempt.stopwatch)
    return attempt.run()


class _Attempt:
    """Performs the task from pause to pause; then there is either its answer, or a coroutine that will give it."""

    def __init__(self, spec: str) -> None:
        self._function = resolve(spec)
        self.stopwatch = Stopwatch()
        self.answer = ""
        self.coroutine: Coroutine[Any, Any, str] | None = None

    def pauses(self) -> Iterator[float]:
        """Each in seconds; whoever goes on has made it."""
        self.stopwatch.start()
        answer = self._function()
        if inspect.isgenerator(answer):
            steps = cast("Iterator[float | None]", answer)
            while True:
                try:
                    pause_s = next(steps) or 0.0  # a bare `yield` gives None
                except StopIteration as end:
                    answer = end.value
                    break
                self.stopwatch.stop()  # what others compute in the pause is not this task's
                yield pause_s
                self.stopwatch.start()
        if inspect.isasyncgen(answer):
            raise TypeError("an async generator is no answer; expected an async function that returns it")
        if not inspect.iscoroutine(answer):
            self.answer = str(answer)
        self.stopwatch.stop()
        if inspect.iscoroutine(answer):
            self.coroutine = as_text(answer)
            if inspect.iscoroutinefunction(getattr(self._function, "function", None)):
                self.stopwatch = Stopwatch()  # it begins when it is first stepped

    def run(self) -> TaskRun:
        """What came of it."""
        ran = tuple(self.stopwatch.stretches)
        return TaskRun(self.answer, ran[0].from_s, ran[-1].to_s, self.stopwatch.cpu_s(), _this_worker(), ran)


async def as_text(coroutine: Coroutine[Any, Any, object]) -> str:
    """What it gives, as text."""
    return str(await coroutine)


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    """Whatever the task raises is a TaskError; that somebody else wants it to end is not."""
    try:
        yield
    except BaseException as error:  # a GeneratorExit, say, which servers take for their own, and never answer
        if not isinstance(error, Exception) and _is_from_outside(error):
            raise
        raise TaskError(one_line(error)) from None


def _is_from_outside(error: BaseException) -> bool:
    """Whether it tells the task to end, by Ctrl-C or because its greenlet or its asyncio task was cancelled."""
    if isinstance(error, KeyboardInterrupt):
        return signal.getsignal(signal.SIGINT) is signal.default_int_handler  # or Ctrl-C does not raise it
    return type(error).__name__ == "GreenletExit" or _was_cancelled_by_another(error)


def _was_cancelled_by_another(error: BaseException) -> bool:
    import asyncio

    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs here
        return False
    return task is not None and task.cancelling() > 0


def _this_worker() -> str:
    interpreter = _interpreter_number()
    if interpreter:
        name = f"Interpreter-{interpreter}"
    elif threading.get_native_id() == _MAIN_THREAD:
        name = "MainThread"
    else:
        name = threading.current_thread().name
        if name != "MainThread" and not any(map(str.isdigit, name)):  # AnyIO calls all threads of its pool the same
            name = f"{name} {threading.get_native_id()}"
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

    Behind its name may stand literals, `module:function('acme', 3)`: then it is called with these.

    Raises:
        UnknownTaskError: with one line that says why not, and what to try.
    """
    if spec in BUILTIN_TASKS:
        return BUILTIN_TASKS[spec]
    path, arguments = split(spec)
    if path in BUILTIN_TASKS:
        raise BadCallError(f"task {spec!r} can't be performed: {path} takes no arguments; expected {path}")
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise UnknownTaskError(
            f"unknown task {spec!r}: expected {', '.join(BUILTIN_TASKS)}, or your own as module:function"
        )
    function = _import(module, name, spec)
    _refuse_what_cannot_be_called(function, arguments, spec)
    return Call(function, arguments)


def _import(module: str, name: str, spec: str) -> Callable[..., object]:
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


def _refuse_what_cannot_be_called(function: Callable[..., object], arguments: Arguments, spec: str) -> None:
    if inspect.isasyncgenfunction(function):
        raise UnknownTaskError(
            f"task {spec!r} is an async generator function; expected an async function that returns the answer, "
            "or a generator function that yields the seconds it wants to wait"
        )
    try:
        inspect.signature(function).bind(*arguments.positional, **arguments.named)
    except TypeError as error:
        how = f"with {arguments.text}" if arguments.text else "without arguments"
        raise BadCallError(f"task {spec!r} can't be called {how}: {error}") from None
    except ValueError:
        pass  # some builtins have no signature that could be checked
