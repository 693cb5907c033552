"""The long task: three built-in tasks, and how a server performs one of them or one of yours.

A task is a plain function, an `async def`, or a generator function that yields where other code may run. The generator
uses `yield 0` or `yield` between slices of computation, and `yield 0.2` to wait 0.2 s.
"""

import hashlib
import importlib
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from types import coroutine
from typing import Any, NamedTuple

from common.errors import one_line
from common.task_name import UnknownTaskError, import_from, split, task_of

_IS_PATCHED = not inspect.isbuiltin(time.sleep)  # true if gevent has patched the standard library
_MOST_SPANS = 200  # as many as fit into a header of 4 KB


def primes() -> Generator[float, None, int]:
    """Count the primes below 38,000 in pure Python, which holds the GIL."""
    count = 0
    for number in range(2, 38_000):
        if number % 500 == 0:
            yield 0  # lets other code run
        count += is_prime(number)
    return count


def is_prime(number: int) -> bool:
    """Return whether a number is prime. The slow trial division is intentional."""
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def digest() -> str:
    """Derive a key from a password with one call to hashlib, which releases the GIL."""
    return hashlib.pbkdf2_hmac("sha256", b"correct horse", b"battery staple", 250_000).hex()


def sign_up() -> Generator[float, None, str]:
    """Simulate I/O: wait for a database, a mail server and a social network."""
    yield 0.020
    yield 0.060
    yield 0.200
    return "signed up"


BUILTIN_TASKS = {task.__name__: task for task in (primes, digest, sign_up)}


class ComputeSpan(NamedTuple):
    """A period in which a task did not pause. The operating system may have run other threads meanwhile."""

    from_s: float  # `time.monotonic`
    to_s: float
    cpu_s: float  # CPU time of the task's thread


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One run of a task. Start and end times are from `time.monotonic`, which all processes of a machine share."""

    answer: str
    started_s: float
    finished_s: float
    cpu_s: float
    worker: str  # "process id/thread"
    spans: tuple[ComputeSpan, ...] = ()


class TaskError(RuntimeError):
    """Raised if the task fails. It contains only one line of text, so it can always be pickled."""


def perform(spec: str) -> TaskRun:
    """Perform the task and block this thread until it is done.

    Raises:
        UnknownTaskError: `spec` names no task, or its arguments are invalid.
        TaskError: the task raised an exception; the message is one line.
    """
    run = _Run(resolve(spec))
    try:
        for pause_s in run.pauses(each_yield=_IS_PATCHED):  # a greenlet lets others run by sleeping; a thread need not
            time.sleep(pause_s)
        if inspect.iscoroutine(run.answer):
            run.answer = _on_new_loop(steps(run.answer, run.add_span))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a task may also call sys.exit()
        raise TaskError(one_line(error)) from None
    return run.finished()


async def perform_in_slices(spec: str) -> TaskRun:
    """Perform the task on the event loop, so that other code runs when the task yields; errors are as in `perform`."""
    import asyncio  # slow to import, and most worker processes don't need it

    run = _Run(resolve(spec))
    try:
        for pause_s in run.pauses(each_yield=True):
            await asyncio.sleep(pause_s)
        if inspect.iscoroutine(run.answer):
            run.answer = await steps(run.answer, run.add_span)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise
    except BaseException as error:
        raise TaskError(one_line(error)) from None
    return run.finished()


class _Run:
    """Run a task from pause to pause, and record when it computed. `answer` is the result, or a coroutine for it."""

    def __init__(self, function: Callable[[], object]) -> None:
        self._function = function
        self._spans: list[ComputeSpan] = []
        self.answer: Any = None

    def pauses(self, *, each_yield: bool) -> Iterator[float]:
        """Yield the pauses of the task in seconds, with `each_yield` also those of 0 s; the caller must wait."""
        begin = _clocks()
        self.answer = self._function()
        while inspect.isgenerator(self.answer):
            try:
                pause_s: Any = next(self.answer) or 0.0  # None: a bare `yield`
            except StopIteration as end:
                self.answer = end.value
            else:
                if pause_s or each_yield:
                    self.add_span(begin)
                    yield pause_s
                    begin = _clocks()
        self.add_span(begin)

    def finished(self) -> TaskRun:
        spans = tuple(self._spans)
        cpu_s = sum(span.cpu_s for span in spans)
        return TaskRun(str(self.answer), spans[0].from_s, spans[-1].to_s, cpu_s, _this_worker(), spans)

    def add_span(self, begin: tuple[float, float]) -> None:
        """Add the span from `begin` until now. If there are too many, join each with its neighbour."""
        now_s, cpu_s = _clocks()
        self._spans.append(ComputeSpan(begin[0], now_s, cpu_s - begin[1]))
        if len(self._spans) > _MOST_SPANS:
            pairs = zip(self._spans[::2], self._spans[1::2], strict=False)
            odd = self._spans[len(self._spans) // 2 * 2 :]
            self._spans = [ComputeSpan(a.from_s, b.to_s, a.cpu_s + b.cpu_s) for a, b in pairs] + odd


@coroutine
def steps(task: Coroutine[Any, Any, Any], report: Callable[[tuple[float, float]], None]) -> Generator[Any, Any, Any]:
    """Await a coroutine; as soon as one of its steps ends, report at what time and CPU time (s) the step began."""
    step: Callable[[Any], Any] = task.send
    value: Any = None
    while True:
        begin = _clocks()
        try:
            awaited = step(value)
        except StopIteration as end:
            return end.value
        finally:
            report(begin)
        try:
            step, value = task.send, (yield awaited)
        except BaseException as error:  # an awaited call failed, or was cancelled
            step, value = task.throw, error


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.thread_time()


def _on_new_loop(steps: Awaitable[object]) -> object:
    """Run an async task to its end, in a separate thread if this thread already runs an event loop."""
    import asyncio

    async def main() -> object:
        return await steps

    if _IS_PATCHED:  # greenlets share a thread, and asyncio allows one running loop in a thread
        threadpool = importlib.import_module("gevent").get_hub().threadpool
        return threadpool.apply(asyncio.run, (main(),))
    if asyncio._get_running_loop() is None:
        return asyncio.run(main())
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, main()).result()


def _this_worker() -> str:
    """Return the process id, and the native id of the thread or the number of the subinterpreter."""
    interpreter = _interpreter_number()
    return f"{os.getpid()}/{f'Interpreter-{interpreter}' if interpreter else threading.get_native_id()}"


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
        known = ", ".join(BUILTIN_TASKS)
        raise UnknownTaskError(f"unknown task {spec!r}: expected {known}, or your own as module:function")
    here = os.getcwd()  # noqa: PTH109 (sys.path holds strings)
    try:
        function: Any = import_from(here, module)
        for attribute in name.split("."):
            function = getattr(function, attribute)
    except (Exception, SystemExit) as error:
        why = f"can't import task {spec!r} from {here}: {one_line(error)}"
        raise UnknownTaskError(f"{why}; expected module:function") from None
    return task_of(function, arguments, spec)
