"""The end of what a process prints: read all the time, so that it never has to wait, and mostly forgotten."""

import contextlib
import os
import threading
import time
from typing import IO


class Tail:
    """Reads a stream to its end on a thread and keeps the last of it, slowly if it is a flood."""

    LINES, KEPT_BYTES, BREATH_S = 40, 65536, 0.005

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self._kept = b""
        self._fd = os.dup(stream.fileno())  # its own, so that nobody closes it while it is being read
        self._thread = threading.Thread(target=self._read, name="tail", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.closing(os.fdopen(self._fd, "rb", buffering=0)) as stream:
            while chunk := stream.read(self.KEPT_BYTES):
                self._kept = (self._kept + chunk)[-self.KEPT_BYTES :]
                if len(chunk) > 4096:
                    time.sleep(self.BREATH_S)  # a server that floods must not take the CPU from the measurement

    def reading(self) -> bool:
        """Whether the stream has not ended yet."""
        return self._thread.is_alive()

    def all_kept(self) -> str:
        """As much of the end as there is."""
        return self._kept.decode(errors="replace")

    def text(self) -> str:
        """The last lines."""
        text = self.all_kept()
        return "\n".join(text.splitlines()[-self.LINES :])[-4000:]
