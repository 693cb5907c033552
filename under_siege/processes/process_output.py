"""Read the output of processes: the end of a stream, line by line, and the error of a traceback."""

import asyncio
import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO

from under_siege.model.result_file import legible

LONGEST_BYTES = 65536  # longest line; the rest of a longer one is dropped
LONGEST = 200  # characters of an error
_TRACEBACK = re.compile(r"^(?P<before>.*?)Traceback \(most recent call last\):\s*$", re.MULTILINE)


class Tail:
    """Reads a stream to its end on a thread, so that the process never has to wait, and keeps the end of it."""

    LINES, KEPT_BYTES, BREATH_S = 40, 65536, 0.005

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self._kept = b""
        self.lines = 0  # read so far
        self._fd = os.dup(stream.fileno())  # a duplicate, so that it stays open while it is read
        self._thread = threading.Thread(target=self._read, name="tail", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.closing(os.fdopen(self._fd, "rb", buffering=0)) as stream:
            while chunk := stream.read(self.KEPT_BYTES):
                self.lines += chunk.count(b"\n")
                self._kept = (self._kept + chunk)[-self.KEPT_BYTES :]
                if len(chunk) > 4096:
                    time.sleep(self.BREATH_S)  # a server that floods must not take the CPU from the measurement

    def reading(self) -> bool:
        """Return whether the stream has not ended yet."""
        return self._thread.is_alive()

    def all_kept(self) -> str:
        return self._kept.decode(errors="replace")

    def text(self) -> str:
        """Return the last lines."""
        return "\n".join(self.all_kept().splitlines()[-self.LINES :])[-4000:]


@contextlib.contextmanager
def reading_lines(fd: int, take: Callable[[str, float], None]) -> Iterator[Callable[[], None]]:
    """Call `take(line, time.monotonic())` for each line; yield a function that reads what is available now."""
    rest = b""

    def read() -> None:
        nonlocal rest
        try:
            chunk = os.read(fd, 65536)
        except OSError:  # nothing available, or (EIO) the other end of a terminal was closed
            chunk = b""
        arrived_s = time.monotonic()
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[:LONGEST_BYTES]  # a stream without line ends must not fill the memory
        for line in lines:
            take(line[:LONGEST_BYTES].decode(errors="replace"), arrived_s)
        if not chunk:
            loop.remove_reader(fd)  # at the end of a stream, asyncio would call it again and again

    os.set_blocking(fd, False)
    loop = asyncio.get_running_loop()
    loop.add_reader(fd, read)
    try:
        yield read
    finally:
        loop.remove_reader(fd)


def last_error(stderr: str) -> str:
    """Return the line that ends the last traceback, `KeyError: 'x'`; empty if there is none, or it isn't complete."""
    heads = list(_TRACEBACK.finditer(stderr))
    if not heads:
        return ""
    # An exception group has bars before all of its lines; a logger's prefix precedes only the first line.
    margin = heads[-1]["before"] if re.fullmatch(r"[\s|+]*", heads[-1]["before"]) else ""
    for line in stderr[heads[-1].end() :].splitlines()[1:]:
        text = line[len(margin) :]
        if text.strip() and not text.startswith((" ", "\t")):
            error = legible(text.strip())
            return error if len(error) <= LONGEST else f"{error[: LONGEST - 1]}…"
    return ""
