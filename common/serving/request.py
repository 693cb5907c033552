"""What has been asked of a pool, before and while the pool does it: it may need more than one attempt."""

import contextlib
from concurrent.futures import Future, InvalidStateError
from typing import Any


class Request(Future[Any]):
    """The future result of a call; each attempt at it has a future of its own."""

    def __init__(self, *call: Any) -> None:
        super().__init__()
        self.call = call  # as the pool is told
        self.attempt: Future[Any] | None = None  # while there is one
        self.is_unwanted = False

    def cancel(self) -> bool:
        """Whether it will not be done; if it is being done, that nobody waits for it any more can be seen."""
        self.is_unwanted = True
        if self.attempt is not None and not self.attempt.cancel():
            return False
        return super().cancel()

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
