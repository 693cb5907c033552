"""A process pool that outlives its processes: when one is lost it is made anew, and what was lost is done once more."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any, Self

from common.pool_request import Request, Waiting
from common.responses import unready_while
from common.task import TaskError

MOST_CRASHES = 3
RENEWALS, RENEWAL_S = 10, 0.01


class LastingPool:
    """A pool like the one that it is given the class and the arguments of; its `submit` never says that it is broken.

    A pool that lost a process can't tell which request is to blame, so all that were in it are suspects. Who has been
    one twice is done alone, in a pool of its own: if that breaks, too, it was this request, and it is given up.

    The pool is given only what its processes need next: nothing can be taken back from it, whoever leaves.
    """

    def __init__(self, pool_class: type[ProcessPoolExecutor], workers: int, *arguments: Any) -> None:
        self._pool_class, self._workers, self._arguments = pool_class, workers, arguments
        self._crashes_in_a_row = 0
        self._closed = False
        self._waiting = Waiting()
        self._lock = threading.RLock()
        self._latest = _Generation(self._pool(workers))
        # A broken pool tells of it on a thread of its own, which holds its locks: what follows is done on these.
        self._again, self._alone = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._trial: Future[Any] | None = None
        unready_while(self.trouble)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """The future result of the call; it can be cancelled as long as no process needs it next.

        It raises a TaskError if the call ends the processes that do it.
        """
        request = Request(function, *arguments)
        self._waiting.add(request)
        self._hand_over()
        return request

    def trouble(self) -> str:
        """One line if no call has come through since the pool broke several times; whoever asks has it tried."""
        if self._crashes_in_a_row < MOST_CRASHES:
            return ""
        said = f"the process pool broke {self._crashes_in_a_row} times in a row"
        if self._trial is None or self._trial.done():
            self._trial = self.submit(os.getpid)
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        for executor in (self._again, self._alone):
            executor.shutdown(wait=False, cancel_futures=True)
        if self._latest.inside:
            self._latest.end_processes()  # nobody waits any more for what they do
        self._latest.pool.shutdown()

    def _pool(self, workers: int) -> ProcessPoolExecutor:
        return self._pool_class(workers, *self._arguments)

    def _hand_over(self) -> None:
        """One more than there are processes, so that none of them waits for us."""
        with self._lock:
            while not self._closed and len(self._latest.inside) <= self._workers and (request := self._waiting.take()):
                with request.told_what_goes_wrong():
                    attempt = self._attempt(request)
                    request.attempt = attempt
                    self._latest.inside.add(request)
                    attempt.add_done_callback(partial(self._ended, request, self._latest))

    def _attempt(self, request: Request) -> Future[Any]:
        for _ in range(RENEWALS):
            with contextlib.suppress(BrokenExecutor, OSError, EOFError):
                return self._latest.pool.submit(*request.call)
            # It lost a process while it had nothing to do, or a fork server that was killed is not quite gone.
            self._renew()
            time.sleep(RENEWAL_S)
        return self._latest.pool.submit(*request.call)

    def _renew(self) -> None:
        self._crashes_in_a_row += bool(self._latest.inside)
        self._latest.end_processes()
        self._latest = _Generation(self._pool(self._workers))

    def _ended(self, request: Request, generation: "_Generation", attempt: Future[Any]) -> None:
        if not attempt.cancelled() and isinstance(attempt.exception(), BrokenExecutor) and not self._closed:
            self._again.submit(self._once_more, request, generation)
            return
        generation.inside.discard(request)
        if not attempt.cancelled():
            self._crashes_in_a_row = 0
            request.take_over(attempt)
        self._hand_over()

    def _once_more(self, request: Request, lost: "_Generation") -> None:
        with request.told_what_goes_wrong(), self._lock:
            if self._latest is lost:
                self._renew()
            request.crashes += 1
            if request.is_unwanted:
                request.give_up()
            elif request.crashes < MOST_CRASHES - 1:
                self._waiting.add_again(request)
            else:
                self._alone.submit(self._do_alone, request)
        self._hand_over()

    def _do_alone(self, request: Request) -> None:
        if request.is_unwanted:
            request.give_up()
            return
        with request.told_what_goes_wrong():
            with self._pool(1) as pool:
                attempt = pool.submit(*request.call)
                is_broken = isinstance(attempt.exception(), BrokenExecutor)
            self._crashes_in_a_row = self._crashes_in_a_row + 1 if is_broken else 0
            if is_broken:
                raise TaskError(f"the task ended its process {MOST_CRASHES} times in a row: given up")
            request.take_over(attempt)


class _Generation:
    """One pool after the other, and what is in it."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.pool = pool
        self.inside: set[Request] = set()

    def end_processes(self) -> None:
        """Those that are left of a broken pool may wait for ever for a lock that a lost one held."""
        # Which they are it tells nobody (before Python 3.14); and one whose fork server is gone doesn't know it lives.
        for pid in [*(self.pool._processes or {})]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
