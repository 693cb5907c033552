"""Read untrusted files within limits, and write files atomically."""

import contextlib
import errno
import gzip
import io
import os
import stat
import tempfile
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path

from common.errors import BadInputError

PEEKED_BYTES, MAX_BYTES = 4096, 1_000_000_000
GZIP = b"\x1f\x8b"  # the first bytes of a gzip file
_TEMPORARY = ".under-siege-"
_MODE = 0o666  # permissions of a new file, less the user's umask
_MAX_LINKS = 40


class UnwritableError(BadInputError, OSError):
    """Raised if a file can't be written. The message is one line."""


def read_limited(path: Path, begins_with: tuple[bytes, ...] = (b"",), most_bytes: int = MAX_BYTES) -> bytes:
    """Return the contents of a file of at most `most_bytes`; treat a pipe without a writer as empty.

    Raises:
        OSError: the file can't be read.
        ValueError: the file is too large, or does not begin with one of `begins_with`.
    """
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY), "rb") as file:
        os.set_blocking(file.fileno(), True)
        data = file.read(PEEKED_BYTES)
        if not data.lstrip().startswith(begins_with):
            raise ValueError(f"it does not begin with {begins_with[0].decode()!r}")
        data += file.read(most_bytes)
    if len(data) > most_bytes:
        raise ValueError(f"it is larger than {most_bytes:,} bytes")
    return data


def decompressed(data: bytes, most_bytes: int = MAX_BYTES) -> bytes:
    """Return the contents of a gzip file, or any other data unchanged.

    Raises:
        ValueError: the gzip file is damaged, or its contents are larger than `most_bytes`.
    """
    if not data.startswith(GZIP):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            contents = file.read(most_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"it is not a complete gzip file: {error}") from None
    if len(contents) > most_bytes:
        raise ValueError(f"it is larger than {most_bytes:,} bytes when decompressed")
    return contents


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file atomically; write directly to a device or a pipe.

    Raises:
        UnwritableError: the file can't be written; the previous version is unchanged.
    """
    with _reported(path):
        target, is_replaceable = _target(path)
        if not is_replaceable:
            _append(target, data)
            return
        mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else None
        new = target.parent / f"{_TEMPORARY}{uuid.uuid4().hex}"
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE if mode is None else mode)
        try:
            with os.fdopen(handle, "wb") as file:
                if mode is not None:
                    os.fchmod(handle, mode)
                file.write(data)
            new.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                new.unlink()
            raise


def append(path: Path, data: bytes, size: int) -> bool:
    """Append to a file; return False, and change nothing, unless the file exists and has this size.

    Raises:
        UnwritableError: the file can't be written; a part of the data may have been appended.
    """
    with _reported(path):
        if not path.exists() or path.stat().st_size != size:
            return False
        _append(path, data)
    return True


def check_writable(path: Path) -> None:
    """Raise UnwritableError if `write_atomically` would fail now."""
    with _reported(path, "; try another file"):
        target, is_replaceable = _target(path)
        if is_replaceable:
            tempfile.NamedTemporaryFile(dir=target.parent, prefix=_TEMPORARY).close()
        else:
            _append(target, b"")


@contextlib.contextmanager
def _reported(path: Path, remedy: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnwritableError(f"{str(path)!r} can't be written: {error.strerror or error}{remedy}") from None


def is_pipe(path: Path) -> bool:
    """Return whether the path is a pipe or a socket, which can't be rewritten."""
    with contextlib.suppress(OSError):
        mode = path.stat().st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return False


def _target(path: Path) -> tuple[Path, bool]:
    """Follow links; return the target, and whether it can be replaced (a device, pipe or file descriptor can't)."""
    for _ in range(_MAX_LINKS):
        if Path("/proc") in path.parent.resolve().parents:  # for example, the target of /dev/stdout or /dev/fd/63
            return path, False
        try:
            path = path.parent / path.readlink()
        except OSError:  # not a link
            break
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return path, True
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return path, stat.S_ISREG(mode)


def _append(target: Path, data: bytes) -> None:
    handle = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY)  # fails if a pipe has no reader
    try:
        os.set_blocking(handle, True)
        while data:
            data = data[os.write(handle, data) :]
    finally:
        os.close(handle)
