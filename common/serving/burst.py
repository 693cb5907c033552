"""Hold back pool threads while an event loop handles a burst of requests: they would compete with it for the GIL."""

import asyncio
import threading
import time

from common.serving.line import Line

PAUSE_S, QUIET_PAUSES = 0.01, 5  # a burst ends when no request arrives during this many pauses of the event loop
MOST_HOLD_S = 2.0  # then tasks start even if the burst goes on, so that a steady flood does not stop all work


class Burst:
    """Requests that arrive in quick succession while more clients are connected than the server can accept."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._arrivals = 0
        self._watcher: asyncio.Task[None] | None = None
        self._tasks_may_start = threading.Event()
        self._tasks_may_start.set()

    def note_arrival(self) -> None:
        """Record that the event loop has read a request for the long task."""
        self._arrivals += 1
        if self._watcher is None and self._line.is_crowded():
            self._tasks_may_start.clear()
            self._watcher = asyncio.create_task(self._watch())

    def wait_for_end(self) -> None:
        """Block the calling thread until the burst has ended or has lasted too long."""
        self._tasks_may_start.wait()

    async def _watch(self) -> None:
        try:
            await self._until_quiet()
        finally:
            self._watcher = None
            self._tasks_may_start.set()

    async def _until_quiet(self) -> None:
        hold_until_s, quiet_pauses = time.monotonic() + MOST_HOLD_S, 0
        while quiet_pauses < QUIET_PAUSES:
            before = self._seen()
            await asyncio.sleep(PAUSE_S)
            quiet_pauses = quiet_pauses + 1 if self._seen() == before else 0
            if time.monotonic() >= hold_until_s:
                self._tasks_may_start.set()

    def _seen(self) -> tuple[int, int]:
        return self._arrivals, self._line.connections()
