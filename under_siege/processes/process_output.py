"""The end of what a process prints: read all the time, so that it never has to wait, and mostly forgotten."""

import asyncio
import contextlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO

from under_siege.model.result_file import legible


class Tail:
    """Reads a stream to its end on a thread and keeps the last of it, slowly if it is a flood."""

    LINES, KEPT_BYTES, BREATH_S = 40, 65536, 0.005

    def __init__(self, stream: IO[bytes] | None) -> None:
        assert stream is not None
        self._kept = b""
        self.lines = 0  # that have come
        self._fd = os.dup(stream.fileno())  # its own, so that nobody closes it while it is being read
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
        """Whether the stream has not ended yet."""
        return self._thread.is_alive()

    def all_kept(self) -> str:
        """As much of the end as there is."""
        return self._kept.decode(errors="replace")

    def text(self) -> str:
        """The last lines."""
        text = self.all_kept()
        return "\n".join(text.splitlines()[-self.LINES :])[-4000:]


READ_BYTES = 65536
LONGEST_BYTES = 65536  # of a line; what is beyond is dropped, or a stream without line ends would fill the memory


@contextlib.contextmanager
def reading_lines(fd: int, take: Callable[[str, float], None]) -> Iterator[Callable[[], None]]:
    """Calls `take(line, time.monotonic())` for each line; gives a function that takes in what is there now."""
    rest = b""

    def read() -> None:
        nonlocal rest
        try:
            chunk = os.read(fd, READ_BYTES)
        except OSError:  # nothing there, or (EIO) the other end of a terminal was closed
            chunk = b""
        arrived_s = time.monotonic()
        *whole, rest = (rest + chunk).split(b"\n")
        rest = rest[:LONGEST_BYTES]
        for line in whole:
            take(line[:LONGEST_BYTES].decode(errors="replace"), arrived_s)
        if not chunk:
            loop.remove_reader(fd)  # it would be called again and again at the end of the stream

    os.set_blocking(fd, False)
    loop = asyncio.get_running_loop()
    loop.add_reader(fd, read)
    try:
        yield read
    finally:
        loop.remove_reader(fd)


LONGEST = 200
_HEAD = re.compile(r"^(?P<before>.*?)Traceback \(most recent call last\):\s*$", re.MULTILINE)


def last_error(stderr: str) -> str:
    """The line that ends the last traceback, `KeyError: 'x'`; empty where there is none, or it isn't complete."""
    heads = list(_HEAD.finditer(stderr))
    if not heads:
        return ""
    # Of a group it is drawn with bars, which stand before all of its lines; what a logger writes stands before one.
    margin = heads[-1]["before"] if re.fullmatch(r"[\s|+]*", heads[-1]["before"]) else ""
    for line in stderr[heads[-1].end() :].splitlines()[1:]:
        text = line[len(margin) :]
        if text.strip() and not text.startswith((" ", "\t")):
            said = legible(text.strip())
            return said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"
    return ""
