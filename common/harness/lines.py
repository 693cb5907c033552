"""Lines of a process, taken in as they come and stamped with the time of their arrival."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator

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
