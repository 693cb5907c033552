"""Find the long task, perform it, and return its result and timings.

A task is a plain function, an `async def`, or a generator function that yields where other code may run. The
generator uses `yield 0` or `yield` between slices of computation, and `yield 0.2` to wait 0.2 s.

asyncio is imported only where needed, because its import takes twice as long as all other imports of a worker process.
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
from typing import Any, NamedTuple, cast

from common.errors import one_line
from common.task.builtin import BUILTIN_TASKS
from common.task.task_name import Arguments, Call, UnknownTaskError, import_from, split

DENSE = 0.9  # a span with at least this share of CPU time counts as pure computation
MOST_SPANS = 200  # as many as fit into a header of 4 KB

__all__ = [
    "TaskError",
    "TaskRun",
    "UnknownTaskError",
    "as_text",
    "perform",
    "perform_in_slices",
    "resolve",
]

_MAIN_THREAD = threading.get_native_id()  # all gevent greenlets run in this thread, despite their thread names


class ComputeSpan(NamedTuple):
    """A period in which a task did not pause. The operating system may have run other threads meanwhile."""

    from_s: float  # `time.monotonic`
    to_s: float
    cpu_s: float  # CPU time of the task's thread

    def is_dense(self) -> bool:
        """Return whether the task computed during almost the whole span."""
        return self.cpu_s >= DENSE * (self.to_s - self.from_s)


class Stopwatch:
    """Record compute spans. The caller stops the watch when the task yields, and starts it when the task resumes."""

    def __init__(self) -> None:
        self.spans: list[ComputeSpan] = []

    def start(self) -> None:
        self._from_s, self._cpu_s = time.monotonic(), time.thread_time()

    def stop(self) -> None:
        """End a span, and merge it with the previous span if the merged span would be dense.

        If more than `MOST_SPANS` spans remain, merge them in pairs.
        """
        new = ComputeSpan(self._from_s, time.monotonic(), time.thread_time() - self._cpu_s)
        if self.spans and _joined(self.spans[-1], new).is_dense():
            self.spans[-1] = _joined(self.spans[-1], new)
        else:
            self.spans.append(new)
        if len(self.spans) > MOST_SPANS:
            pairs = zip(self.spans[::2], self.spans[1::2], strict=False)
            self.spans = [_joined(*pair) for pair in pairs] + self.spans[len(self.spans) // 2 * 2 :]

    def cpu_s(self) -> float:
        """Return the total CPU time of all spans."""
        return sum(span.cpu_s for span in self.spans)


def _joined(one: ComputeSpan, other: ComputeSpan) -> ComputeSpan:
    return ComputeSpan(one.from_s, other.to_s, one.cpu_s + other.cpu_s)


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One run of a task. Start and end times are from `time.monotonic`, which all processes of a machine share."""

    answer: str
    started_s: float
    finished_s: float
    cpu_s: float
    worker: str  # "process id/thread name"
    spans: tuple[ComputeSpan, ...] = ()


class TaskError(RuntimeError):
    """Raised if the task fails or is cancelled. It contains only text, so it can always be pickled."""


def perform(spec: str, is_cancelled: Callable[[], bool] = bool) -> TaskRun:
    """Perform the task and block this thread until it is done.

    Args:
        spec: the name of the task.
        is_cancelled: called whenever the task yields; if it returns True, the task is stopped.

    Raises:
        UnknownTaskError: `spec` names no task, or its arguments are invalid.
        TaskError: the task raised an exception or was cancelled; the message is one line.
    """
    attempt = _Attempt(spec)
    sleep_yields = not inspect.isbuiltin(time.sleep)  # true if gevent has patched it
    with _task_errors():
        for pause_s in attempt.pauses():
            if is_cancelled():
                raise TaskError("cancelled: the client disconnected")
            # Only greenlets need to yield explicitly. In threads and processes, sleep(0) would take 70 µs on Linux.
            if pause_s or sleep_yields:
                time.sleep(pause_s)
        if attempt.coroutine is not None:
            from common.task.coroutine_runner import on_new_loop

            attempt.answer = on_new_loop(attempt.coroutine, attempt.stopwatch)
    return attempt.run()


async def perform_in_slices(spec: str) -> TaskRun:
    """Perform the task on the event loop, so that other code runs when the task yields; errors are as in `perform`."""
    import asyncio

    attempt = _Attempt(spec)
    with _task_errors():
        for pause_s in attempt.pauses():
            await asyncio.sleep(pause_s)
        if attempt.coroutine is not None:
            from common.task.coroutine_runner import on_running_loop

            attempt.answer = await on_running_loop(attempt.coroutine, attempt.stopwatch)
    return attempt.run()


class _Attempt:
    """Run the task from pause to pause. Afterward, `answer` is the result, or `coroutine` returns the result."""

    def __init__(self, spec: str) -> None:
        self._function = resolve(spec)
        self.stopwatch = Stopwatch()
        self.answer = ""
        self.coroutine: Coroutine[Any, Any, str] | None = None

    def pauses(self) -> Iterator[float]:
        """Yield each pause of the task in seconds; the caller must wait that long."""
        self.stopwatch.start()
        answer = self._function()
        if inspect.isgenerator(answer):
            steps = cast("Iterator[float | None]", answer)
            while True:
                try:
                    pause_s = next(steps) or 0.0  # None: a bare `yield`
                except StopIteration as end:
                    answer = end.value
                    break
                self.stopwatch.stop()
                yield pause_s
                self.stopwatch.start()
        if inspect.isasyncgen(answer):
            raise TypeError("the task returned an async generator; expected an async function that returns the result")
        if not inspect.iscoroutine(answer):
            self.answer = str(answer)
        self.stopwatch.stop()
        if inspect.iscoroutine(answer):
            self.coroutine = as_text(answer)
            if inspect.iscoroutinefunction(getattr(self._function, "function", None)):
                self.stopwatch = Stopwatch()  # the task starts with the first step of the coroutine

    def run(self) -> TaskRun:
        spans = tuple(self.stopwatch.spans)
        return TaskRun(self.answer, spans[0].from_s, spans[-1].to_s, self.stopwatch.cpu_s(), _this_worker(), spans)


async def as_text(coroutine: Coroutine[Any, Any, object]) -> str:
    """Return the result of a coroutine as text."""
    return str(await coroutine)


@contextmanager
def _task_errors() -> Iterator[None]:
    """Convert exceptions of the task to TaskError, except those from outside, such as Ctrl-C."""
    try:
        yield
    except BaseException as error:  # servers would mistake a GeneratorExit of the task for their own
        if not isinstance(error, Exception) and _is_from_outside(error):
            raise
        raise TaskError(one_line(error)) from None


def _is_from_outside(error: BaseException) -> bool:
    """Return whether the error is Ctrl-C, or the cancellation of the greenlet or asyncio task by other code."""
    if isinstance(error, KeyboardInterrupt):
        return signal.getsignal(signal.SIGINT) is signal.default_int_handler  # otherwise, the task itself raised it
    return type(error).__name__ == "GreenletExit" or _was_cancelled_by_another(error)


def _was_cancelled_by_another(error: BaseException) -> bool:
    import asyncio

    if not isinstance(error, asyncio.CancelledError):
        return False
    loop = asyncio._get_running_loop()
    task = asyncio.current_task(loop) if loop else None
    return task is not None and task.cancelling() > 0


def _this_worker() -> str:
    interpreter = _interpreter_number()
    if interpreter:
        name = f"Interpreter-{interpreter}"
    elif threading.get_native_id() == _MAIN_THREAD:
        name = "MainThread"
    else:
        name = threading.current_thread().name
        if name != "MainThread" and not any(map(str.isdigit, name)):  # AnyIO's threads share a name
            name = f"{name} {threading.get_native_id()}"
    return f"{os.getpid()}/{name}"


@cache
def _interpreter_number() -> int:
    """Return the number of this interpreter, which is 0 for the main interpreter, and before Python 3.14."""
    try:
        return int(importlib.import_module("concurrent.interpreters").get_current().id)
    except ImportError:
        return 0


@cache
def resolve(spec: str) -> Callable[[], object]:
    """Return the function of a task such as `primes`, `module:function` or `module:function('acme', 3)`.

    Modules are imported from the current directory. Arguments must be literals.

    Raises:
        UnknownTaskError: there is no such task, or its arguments are invalid; the message is one line with a remedy.
    """
    if spec in BUILTIN_TASKS:
        return BUILTIN_TASKS[spec]
    path, arguments = split(spec)
    if path in BUILTIN_TASKS:
        raise UnknownTaskError(f"task {spec!r} can't be performed: {path} takes no arguments; use {path}")
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise UnknownTaskError(
            f"unknown task {spec!r}: expected {', '.join(BUILTIN_TASKS)}, or your own as module:function"
        )
    function = _import(module, name, spec)
    _require_callable(function, arguments, spec)
    return Call(function, arguments)


def _import(module: str, name: str, spec: str) -> Callable[..., object]:
    here = os.getcwd()  # noqa: PTH109 (sys.path holds strings)
    try:
        function: object = import_from(here, module)
        for attribute in name.split("."):
            function = getattr(function, attribute)
    except (Exception, SystemExit) as error:
        raise UnknownTaskError(
            f"can't import task {spec!r} from {here}: {one_line(error)}; expected module:function"
        ) from None
    if not callable(function):
        raise UnknownTaskError(f"task {spec!r} has the type {type(function).__name__}; expected a function")
    return function


def _require_callable(function: Callable[..., object], arguments: Arguments, spec: str) -> None:
    if inspect.isasyncgenfunction(function):
        raise UnknownTaskError(
            f"task {spec!r} is an async generator function; expected an async function that returns the result, "
            "or a generator function that yields the seconds to wait"
        )
    try:
        inspect.signature(function).bind(*arguments.positional, **arguments.named)
    except TypeError as error:
        how = f"with {arguments.text}" if arguments.text else "without arguments"
        raise UnknownTaskError(f"task {spec!r} can't be called {how}: {error}") from None
    except ValueError:
        pass  # some builtins have no signature
