"""The file that something is written to: whole or not at all, where a link leads, and never in place of a device."""

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path

from common.errors import BadInputError

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


MODE = 0o644  # mkstemp makes it 0600, but a result is no secret


class UnwritableError(BadInputError, OSError):
    """The file can't be written; the message is one line."""


def write_whole(path: Path, data: bytes) -> None:
    """Writes a new file beside it and renames that, so that there is never half a file; into what is no file directly.

    Raises:
        UnwritableError: what was there before is still there.
    """
    try:
        _write(path, data)
    except OSError as error:
        raise UnwritableError(f"{str(path)!r} can't be written: {error.strerror or error}") from None


def _write(path: Path, data: bytes) -> None:
    target, is_file = _target(path)
    if not is_file:
        _write_into(target, data)
        return
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".under-siege-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(_mode(target))
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def check_writable(path: Path) -> None:
    """Raises UnwritableError if `write_whole` could not write there, as far as that can be known before."""
    try:
        _probe(path)
    except OSError as error:
        raise UnwritableError(f"{str(path)!r} can't be written: {error.strerror or error}; try another file") from None


def _probe(path: Path) -> None:
    target, is_file = _target(path)
    if is_file:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=".under-siege-")
        os.close(handle)
        Path(name).unlink()
    else:
        _write_into(target, b"")


def is_pipe(path: Path) -> bool:
    """Whether what is written there can't be written anew."""
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return False


def _target(path: Path) -> tuple[Path, bool]:
    """Where its links lead, and whether a file there may be replaced: not a device, a pipe, or what is open already."""
    for _ in range(40):
        if Path("/proc") in path.parent.resolve().parents:  # as /dev/stdout leads there, and /dev/fd/63
            return path, False
        try:
            path = path.parent / path.readlink()
        except OSError:  # no link
            break
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path, True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return path, stat.S_ISREG(mode)


def _mode(target: Path) -> int:
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except OSError:
        return MODE


def _write_into(target: Path, data: bytes) -> None:
    # Without waiting for somebody who opens the other end of a pipe: that might be for ever.
    handle = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        os.set_blocking(handle, True)
        while data:
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)
