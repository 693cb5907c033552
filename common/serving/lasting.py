"""A process pool that outlives its processes: when one is lost it is made anew, and what was lost is done once more."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any, Self

from common.serving.readiness import unready_while
from common.task import TaskError

MOST_CRASHES = 3
RENEWALS, RENEWAL_S = 10, 0.01


class LastingPool:
    """A pool like the one that it is given the class and the arguments of; its `submit` never says that it is broken.

    A pool that lost a process can't tell which request is to blame, so all that ran in it are suspects. Who has been
    one twice is done alone, in a pool of its own: if that breaks, too, it was this request, and it is given up.
    """

    def __init__(self, pool_class: type[ProcessPoolExecutor], workers: int, *arguments: Any) -> None:
        self._pool_class, self._workers, self._arguments = pool_class, workers, arguments
        self._crashes_in_a_row = 0
        self._closed = False
        self._lock = threading.Lock()
        self._latest = _Generation(self._pool(workers))
        # A broken pool tells of it on a thread of its own, which holds its locks: what follows is done on these.
        self._again, self._alone = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._trial: Future[Any] | None = None
        unready_while(self.trouble)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """The future result of the call; it can be cancelled as long as no process has been given it.

        It raises a TaskError if the call ends the processes that do it.
        """
        request = _Request(function, arguments)
        self._hand_over(request)
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

    def _hand_over(self, request: "_Request") -> None:
        with self._lock:
            attempt = self._attempt(request)
            generation = self._latest
            generation.inside[request] = request.attempt = attempt
        attempt.add_done_callback(partial(self._ended, request, generation))

    def _attempt(self, request: "_Request") -> Future[Any]:
        for _ in range(RENEWALS):
            with contextlib.suppress(BrokenExecutor, OSError, EOFError):
                return self._latest.pool.submit(request.function, *request.arguments)
            # It lost a process while it had nothing to do, or a fork server that was killed is not quite gone.
            self._latest = self._renewed(self._latest)
            time.sleep(RENEWAL_S)
        return self._latest.pool.submit(request.function, *request.arguments)

    def _renewed(self, lost: "_Generation") -> "_Generation":
        lost.end_processes()
        return _Generation(self._pool(self._workers))

    def _ended(self, request: "_Request", generation: "_Generation", attempt: Future[Any]) -> None:
        if attempt.cancelled():
            generation.inside.pop(request)
        elif self._closed or not isinstance(attempt.exception(), BrokenExecutor):
            generation.inside.pop(request)
            self._crashes_in_a_row = 0
            request.take_over(attempt)
        else:
            if not generation.suspects:  # the first to be told, while those that still run can be told from the rest
                self._crashes_in_a_row += 1
                generation.suspects = {one for one, its in [*generation.inside.items()] if its.running()} | {request}
            generation.inside.pop(request)
            self._again.submit(self._once_more, request, generation)

    def _once_more(self, request: "_Request", lost: "_Generation") -> None:
        with request.told_what_goes_wrong():
            with self._lock:
                if self._latest is lost:
                    self._latest = self._renewed(lost)
            request.crashes += request in lost.suspects
            if request.is_unwanted:
                request.forget()
            elif request.crashes < MOST_CRASHES - 1:
                self._hand_over(request)
            else:
                self._alone.submit(self._do_alone, request)

    def _do_alone(self, request: "_Request") -> None:
        if request.is_unwanted:
            request.forget()
            return
        with request.told_what_goes_wrong():
            with self._pool(1) as pool:
                attempt = pool.submit(request.function, *request.arguments)
                is_broken = isinstance(attempt.exception(), BrokenExecutor)
            self._crashes_in_a_row = self._crashes_in_a_row + 1 if is_broken else 0
            if is_broken:
                raise TaskError(f"the task ended its process {MOST_CRASHES} times in a row: given up")
            request.take_over(attempt)


class _Request(Future[Any]):
    """What has been asked for; each attempt to do it has a future of its own."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        super().__init__()
        self.function, self.arguments = function, arguments
        self.attempt: Future[Any] | None = None
        self.crashes = 0  # how many pools broke while it ran in them
        self.is_unwanted = False

    def cancel(self) -> bool:
        self.is_unwanted = True
        if self.attempt is not None and not self.attempt.cancel():
            return False
        return super().cancel()

    def forget(self) -> None:
        """Cancels it between two attempts."""
        super().cancel()

    @contextlib.contextmanager
    def told_what_goes_wrong(self) -> Iterator[None]:
        """Whoever asked must not wait for ever, whatever happens on a thread to which nobody listens."""
        try:
            yield
        except Exception as error:
            self.set_exception(error)

    def take_over(self, attempt: Future[Any]) -> None:
        """What came of the attempt is what came of it."""
        error = attempt.exception()
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(attempt.result())


class _Generation:
    """One pool after the other: what is in it, and who may have broken it."""

    def __init__(self, pool: ProcessPoolExecutor) -> None:
        self.pool = pool
        self.inside: dict[_Request, Future[Any]] = {}
        self.suspects: set[_Request] = set()

    def end_processes(self) -> None:
        """Those that are left of a broken pool may wait for ever for a lock that a lost one held."""
        # Which they are it tells nobody (before Python 3.14); and one whose fork server is gone doesn't know it lives.
        for pid in [*(self.pool._processes or {})]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
