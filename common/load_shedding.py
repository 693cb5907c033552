"""Refuse requests when too many wait (`--queue N`). Without this option, servers refuse nothing."""

from common.options import Options

REFUSAL = "503 Service Unavailable: the queue is full"
RETRY_LATER = {"Retry-After": "1"}  # seconds


class Queue:
    """Count the requests for the long task that this process has admitted and not yet answered."""

    def __init__(self, options: Options) -> None:
        self._most = None if options.queue is None else options.workers + options.queue
        self._admitted = 0

    def enter(self) -> bool:
        """Admit a request and return True, or return False if it must be refused."""
        if self._most is not None and self._admitted >= self._most:
            return False
        self._admitted += 1
        return True

    def leave(self) -> None:
        """Record that an admitted request is done."""
        self._admitted -= 1
