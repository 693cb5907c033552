"""Run a coroutine as a task, on the running event loop or on a new event loop, and time only its steps.

On a shared event loop, the stopwatch runs during each step of the coroutine and of the asyncio tasks that it started.
On a new event loop, the stopwatch runs from start to end, except while the loop waits, is created, or is closed.
"""

import asyncio
import contextlib
import inspect
import selectors
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Protocol, cast

from common.errors import one_line

_GEVENT = not inspect.isbuiltin(time.sleep)  # true if gevent has patched the standard library
_LOOP_LOCK = threading.Lock()  # for gevent: asyncio allows one running loop per thread, and greenlets share a thread


class Watch(Protocol):
    """A stopwatch that is started when the task runs, and stopped when the task pauses."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


async def on_running_loop(coroutine: Coroutine[Any, Any, str], watch: Watch) -> str:
    """Await a coroutine; the watch runs during each step of the coroutine and of the asyncio tasks that it starts.

    The coroutine runs as a separate asyncio task, so that it can't cancel the task that serves the request.
    """
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is None:
        loop.set_task_factory(cast(Any, _watched_task))  # the type of a factory depends on the Python version
    shared = _Shared(watch)
    token = _SHARED.set(shared)
    try:
        text: str = await asyncio.Task(_watched(coroutine, shared), loop=loop)
        return text
    finally:
        _SHARED.reset(token)


def on_new_loop(coroutine: Coroutine[Any, Any, str], watch: Watch) -> str:
    """Run a coroutine as `asyncio.run` does, but pause the stopwatch while the event loop waits."""
    if _GEVENT:
        with _LOOP_LOCK:
            return _run(coroutine, watch)
    if asyncio._get_running_loop() is None:
        return _run(coroutine, watch)
    with ThreadPoolExecutor(1) as thread:  # asyncio can't run a loop inside a running loop
        return thread.submit(_run, coroutine, watch).result()


def _run(coroutine: Coroutine[Any, Any, str], watch: Watch) -> str:
    shared = _Shared(watch)

    async def watched() -> str:
        with shared.running():
            return await coroutine

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_Selector(shared))) as runner:
        return runner.run(watched())


class _Selector(selectors.DefaultSelector):
    """A selector that stops the watch while the event loop waits."""

    def __init__(self, shared: "_Shared") -> None:
        super().__init__()
        self._shared = shared

    def select(self, timeout: float | None = None) -> Any:
        if not _GEVENT and timeout is not None and timeout <= 0:
            return super().select(timeout)
        with self._shared.pausing():
            return self._select_and_yield(timeout) if _GEVENT else super().select(timeout)

    def _select_and_yield(self, timeout: float | None) -> Any:
        """Let the event loops of other greenlets run while this loop waits."""
        loop = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        _LOOP_LOCK.release()
        try:
            return super().select(timeout)
        finally:
            _LOOP_LOCK.acquire()
            asyncio._set_running_loop(loop)


class _Steps:
    """An awaitable that awaits a coroutine and runs the shared watch during each step."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], shared: "_Shared") -> None:
        self._coroutine, self._shared = coroutine, shared

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[Any], Any] = self._coroutine.send
        value: Any = None
        while True:
            with self._shared.running():
                try:
                    awaited = step(value)
                except StopIteration as end:
                    return end.value
                except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
                    if error is value:
                        raise  # the coroutine is being closed
                    # The original exception would end the event loop, or close the coroutine that awaits this one.
                    raise RuntimeError(one_line(error)) from None
            try:
                step, value = self._coroutine.send, (yield awaited)
            except BaseException as error:  # includes cancellation and GeneratorExit, which the coroutine may handle
                step, value = self._coroutine.throw, error


class _Shared:
    """A watch that several asyncio tasks share, even if an eager task starts inside a step of another task."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._is_running = watch, False

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        if self._is_running:
            yield
            return
        self._is_running = True
        self._watch.start()
        try:
            yield
        finally:
            self._watch.stop()
            self._is_running = False

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        if not self._is_running:
            yield
            return
        self._watch.stop()
        try:
            yield
        finally:
            self._watch.start()


_SHARED: ContextVar[_Shared | None] = ContextVar("_SHARED", default=None)  # new asyncio tasks inherit it


def _watched_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    shared = _SHARED.get()
    if shared is not None and asyncio.iscoroutine(coroutine):
        coroutine = _watched(coroutine, shared)
    return asyncio.Task(coroutine, loop=loop, **options)


async def _watched(coroutine: Coroutine[Any, Any, Any], shared: _Shared) -> Any:
    return await _Steps(coroutine, shared)
