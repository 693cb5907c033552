"""What has been asked of a pool, before and while the pool does it: it may need more than one attempt."""

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from typing import Any


class Request(Future[Any]):
    """The future result of a call; each attempt at it has a future of its own."""

    def __init__(self, *call: Any) -> None:
        super().__init__()
        self.call = call  # as the pool is told
        self.attempt: Future[Any] | None = None  # while there is one
        self.crashes = 0  # how often it was in a pool that broke
        self.is_unwanted = False
        self.has_left: Callable[[], bool] = bool  # whether its client has, which can be looked at before it is told

    def cancel(self) -> bool:
        """Whether it will not be done; if it is being done, that nobody waits for it any more can be seen."""
        self.is_unwanted = True
        if self.attempt is not None and not self.attempt.cancel():
            return False
        return super().cancel()

    def give_up(self) -> None:
        """Cancels it between two attempts."""
        super().cancel()

    def take_over(self, attempt: Future[Any]) -> None:
        """What came of the attempt is what came of it, unless one of them has been cancelled."""
        if attempt.cancelled():
            return
        error = attempt.exception()
        with contextlib.suppress(InvalidStateError):
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(attempt.result())

    @contextlib.contextmanager
    def told_what_goes_wrong(self) -> Iterator[None]:
        """Whoever asked must not wait for ever, whatever happens on a thread to which nobody listens."""
        try:
            yield
        except Exception as error:
            with contextlib.suppress(InvalidStateError):  # nobody waits any more
                self.set_exception(error)


class Waiting:
    """The requests that no pool has been given yet, in their order; who is cancelled is not among them any more."""

    def __init__(self) -> None:
        self._requests: OrderedDict[Future[Any], Request] = OrderedDict()

    def add(self, request: Request) -> None:
        """At the end."""
        self._requests[request] = request
        request.add_done_callback(lambda it: self._requests.pop(it, None))

    def add_again(self, request: Request) -> None:
        """At the beginning: it has waited once."""
        request.attempt = None
        self.add(request)
        with contextlib.suppress(KeyError):  # it has been cancelled
            self._requests.move_to_end(request, last=False)

    def take(self) -> Request | None:
        """The first, which is not here any more; None if there is none."""
        with contextlib.suppress(KeyError):
            return self._requests.popitem(last=False)[1]
        return None
