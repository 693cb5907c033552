"""A thread pool whose tasks can be called off: nobody can end a thread, but a task that gives way can be asked to."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Self

from common.pool_request import Request

_before_each_task: list[Callable[[], None]] = []


def before_each_task(wait: Callable[[], None]) -> None:
    """Call `wait` from now on in the pool thread before each task."""
    _before_each_task.append(wait)


class CallingOff:
    """Does its work in the pool; a call can also be cancelled while it runs, as far as it looks."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """The future result of the call, which can ask `unwanted` whether nobody waits for it any more."""
        request = Request(function, *arguments)
        attempt = request.attempt = self._pool.submit(self._perform, request)
        attempt.add_done_callback(request.take_over)
        return request

    def _perform(self, request: Request) -> Any:
        for wait in _before_each_task:
            wait()
        function, *arguments = request.call
        return function(*arguments, unwanted=lambda: request.is_unwanted or request.has_left())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
