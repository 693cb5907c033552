"""Run a coroutine as a task, on the running event loop or on a new one, and measure its own CPU time.

On a shared event loop, the stopwatch runs while a step of the coroutine, or of a task it started, runs. On a new event
loop it runs from start to end, except while the loop waits. Creating and closing the loop does not count.
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

_PATCHED = not inspect.isbuiltin(time.sleep)  # by gevent: what waits gives way to other greenlets of this thread
_TURN = threading.Lock()  # among greenlets, whose loops all want to be the one that runs on this thread


class Watch(Protocol):
    """What is told when it goes on, and when it pauses."""

    def start(self) -> None:
        """It goes on."""

    def stop(self) -> None:
        """It pauses, or has ended."""


async def on_this_loop(coroutine: Coroutine[Any, Any, str], watch: Watch) -> str:
    """Awaits it among all others; the watch is told of each step of it, and of the tasks that it starts.

    It gets a task of its own: if it cancels itself, it does not cancel whoever serves the request.
    """
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is None:
        loop.set_task_factory(cast(Any, _watched_task))  # its type differs from version to version
    shared = _Shared(watch)
    token = _SHARED.set(shared)
    try:
        text: str = await asyncio.Task(_watched(coroutine, shared), loop=loop)
        return text
    finally:
        _SHARED.reset(token)


def on_a_loop_of_its_own(coroutine: Coroutine[Any, Any, str], watch: Watch) -> str:
    """Runs it to its end as `asyncio.run` does; the watch is told when the loop waits."""
    if _PATCHED:
        with _TURN:
            return _run(coroutine, watch)
    if _loop_of_this_thread() is None:
        return _run(coroutine, watch)
    with ThreadPoolExecutor(1) as beside:  # a loop that runs lets no other one run within; it stands still as it should
        return beside.submit(_run, coroutine, watch).result()


def _run(coroutine: Coroutine[Any, Any, str], watch: Watch) -> str:
    shared = _Shared(watch)

    async def watched() -> str:
        with shared.going():
            return await coroutine

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(_Selector(shared))) as runner:
        return runner.run(watched())


class _Selector(selectors.DefaultSelector):
    """Where a loop waits."""

    def __init__(self, shared: "_Shared") -> None:
        super().__init__()
        self._shared = shared

    def select(self, timeout: float | None = None) -> Any:
        if not _PATCHED and timeout is not None and timeout <= 0:
            return super().select(timeout)
        with self._shared.pausing():
            return self._select_and_give_way(timeout) if _PATCHED else super().select(timeout)

    def _select_and_give_way(self, timeout: float | None) -> Any:
        """Meanwhile the loops of other greenlets may run: for asyncio they are all on one thread."""
        loop = _loop_of_this_thread()
        asyncio._set_running_loop(None)
        _TURN.release()
        try:
            return super().select(timeout)
        finally:
            _TURN.acquire()
            asyncio._set_running_loop(loop)


def _loop_of_this_thread() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _Steps:
    """Awaiting it awaits the coroutine, and the shared watch goes in each step."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], shared: "_Shared") -> None:
        self._coroutine, self._shared = coroutine, shared

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[Any], Any] = self._coroutine.send
        what: Any = None
        while True:
            with self._shared.going():
                try:
                    awaited = step(what)
                except StopIteration as end:
                    return end.value
                except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
                    if error is what:
                        raise  # it is being closed
                    # The first two would end the loop, and so the server; the third would close whoever awaits this.
                    raise RuntimeError(one_line(error)) from None
            try:
                step, what = self._coroutine.send, (yield awaited)
            except BaseException as error:  # a cancellation, and GeneratorExit: all of it is the coroutine's business
                step, what = self._coroutine.throw, error


class _Shared:
    """A watch for several tasks of a loop, of which one may begin in the midst of another (asyncio's eager ones)."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._goes = watch, False

    @contextlib.contextmanager
    def going(self) -> Iterator[None]:
        if self._goes:
            yield
            return
        self._goes = True
        self._watch.start()
        try:
            yield
        finally:
            self._watch.stop()
            self._goes = False

    @contextlib.contextmanager
    def pausing(self) -> Iterator[None]:
        if not self._goes:
            yield
            return
        self._watch.stop()
        try:
            yield
        finally:
            self._watch.start()


_SHARED: ContextVar[_Shared | None] = ContextVar("_SHARED", default=None)  # tasks that are started inherit it


def _watched_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    shared = _SHARED.get()
    if shared is not None and asyncio.iscoroutine(coroutine):
        coroutine = _watched(coroutine, shared)
    return asyncio.Task(coroutine, loop=loop, **options)


async def _watched(coroutine: Coroutine[Any, Any, Any], shared: _Shared) -> Any:
    return await _Steps(coroutine, shared)
