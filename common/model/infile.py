"""The file that something is read from, which may be anything that has a name."""

import os
from pathlib import Path

PEEKED_BYTES, MOST_BYTES = 4096, 1_000_000_000


def read_whole(path: Path, begins_with: bytes = b"", most_bytes: int = MOST_BYTES) -> bytes:
    """All of it; a pipe that nobody writes into is empty, and what has no end is not read to its end.

    Raises:
        OSError: it can't be read.
        ValueError: it is too large, or begins with something else.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
        os.set_blocking(file.fileno(), True)
        data = file.read(PEEKED_BYTES)
        if not data.lstrip().startswith(begins_with):
            raise ValueError(f"it does not begin with {begins_with.decode()!r}")
        data += file.read(most_bytes)
    if len(data) > most_bytes:
        raise ValueError(f"larger than {most_bytes:,} bytes")
    return data
