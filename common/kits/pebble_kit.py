"""A pool of worker processes that survives its workers, and ends one only for a task that runs in it."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from pebble import ProcessFuture, ProcessPool
from pebble.common.types import CONSTS, Result, ResultStatus
from pebble.pool.base_pool import PoolStatus, Task
from pebble.pool.process import task_worker_lookup

from common.parent_watch import follow_server_and_obey
from common.pool_request import Request, Waiting
from common.responses import unready_while


def worker_pool(workers: int) -> ProcessPool:
    """A pebble pool whose workers end with the server, and which goes on whichever of them is lost."""
    CONSTS.sleep_unit = 0.02  # how often it looks after its workers, in seconds; 0.1 is long for a client that has left
    return _WorkerPool(workers)


class _LostWithOthersError(Exception):
    """A worker was lost that did not do this: it is done once more."""


class _WorkerPool(ProcessPool):
    """Hands over to pebble only what its workers need next.

    Pebble writes all that it is asked for into one pipe, from which nothing can be taken back: a worker that finds
    there what nobody wants any more is ended for it. And a worker that is killed may have taken something out of the
    pipe without a word, or hold its lock for ever: so when one is lost all begin anew, with another pipe.
    """

    def __init__(self, workers: int) -> None:
        super().__init__(workers, initializer=follow_server_and_obey, context=get_context("forkserver"))
        self._waiting = Waiting()
        self._handed_over: dict[Future[Any], Request] = {}
        self._places = workers + 1  # one more, so that no worker waits for us
        self._lock = threading.RLock()
        manager = self._pool_manager.task_manager
        self._tasks, self._has_started, self._has_ended = manager.tasks, manager.task_start, manager.task_done_callback
        manager.task_start, manager.task_done_callback = self._start, self._end  # type: ignore[assignment,method-assign]
        self._pool_manager.update_workers = self._replace_workers  # type: ignore[method-assign]
        # Pebble's own gives up the whole pool if a worker is lost while no task is running.
        self._pool_manager.find_expired_task = self._task_of  # type: ignore[assignment,method-assign]
        unready_while(lambda: "the pool of workers broke" if self._context.status == PoolStatus.ERROR else "")

    def schedule(
        self,
        function: Callable[..., Any],
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] = {},
        timeout: float | None = None,
    ) -> ProcessFuture[Any]:
        """The future result of the call; if it is cancelled while it runs, its worker ends with it."""
        request = _Request(function, args, kwargs, timeout)
        self._waiting.add(request)
        self._hand_over()
        return request

    def _hand_over(self) -> None:
        with self._lock:
            while self._places and (request := self._waiting.take()):
                with request.told_what_goes_wrong():
                    attempt = request.attempt = super().schedule(*request.call)
                    self._places -= 1
                    self._handed_over[attempt] = request
                    attempt.add_done_callback(self._take_over)

    def _take_over(self, attempt: Future[Any]) -> None:
        with self._lock:
            request = self._handed_over.pop(attempt)
        if not attempt.cancelled() and isinstance(attempt.exception(), _LostWithOthersError):
            self._waiting.add_again(request)
        else:
            request.take_over(attempt)

    def _start(self, task: int, worker: int | None) -> None:
        self._has_started(task, worker)
        with self._lock:
            attempt = self._tasks[task].future if task in self._tasks else None
            request = self._handed_over.get(attempt) if attempt is not None else None
        if request is not None and request.cancelled():
            request.cancel()  # as it could not be before

    def _end(self) -> None:
        self._has_ended()
        with self._lock:
            self._places += 1
            self._hand_over()

    def _replace_workers(self) -> None:
        """What pebble does for a worker that was lost, and all anew."""
        manager, workers = self._pool_manager, self._pool_manager.worker_manager
        lost = workers.inspect_workers()
        if lost:
            for worker in [*workers.workers, *(worker for worker, _ in lost)]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)  # without their fork server they are called lost, and live
            workers.workers.clear()
            workers.create_channels()  # type: ignore[no-untyped-call]
            for expiration in lost:
                manager.handle_worker_expiration(expiration)
            for task in tuple(self._tasks):
                manager.task_manager.task_done(task, Result(ResultStatus.ERROR, _LostWithOthersError()))
        # A fork server that was killed is not quite gone; this is tried again soon.
        with contextlib.suppress(BrokenProcessPool):
            workers.create_workers()  # type: ignore[no-untyped-call]

    def _task_of(self, worker: int) -> Task:
        return task_worker_lookup(tuple(self._tasks.values()), worker)


class _Request(Request, ProcessFuture[Any]):
    """What has been asked for; it has a future of pebble's as soon as it is handed over."""

    def cancel(self) -> bool:
        is_cancelled = Future.cancel(self)
        if is_cancelled and self.attempt is not None and self.attempt.running():
            self.attempt.cancel()
        return is_cancelled
