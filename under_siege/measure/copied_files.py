"""Copy files of the work tree to a checkout, and databases as their owner's program sees them."""

import shutil
import sqlite3
import time
from functools import partial
from pathlib import Path

_SQLITE = b"SQLite format 3\0"  # how the file of a database begins
_COMPANIONS = ("-wal", "-shm", "-journal")  # SQLite's own files beside that of a database
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
LOCKED_LIMIT_S = 20.0  # how long to wait for a program that locks a database


def copy_into(place: Path, source: Path, target: Path) -> None:
    """Copy a file or a folder to a target inside `place`; replace files, and follow no link out of `place`.

    Raises:
        OSError, shutil.Error, sqlite3.Error: something can't be copied.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    copy = partial(_copy_file, place.resolve())
    if source.is_dir():
        shutil.copytree(source, target, ignore=_companions_in, copy_function=copy, dirs_exist_ok=True)
    else:
        copy(source, target)


def database_of(path: Path) -> Path | None:
    """Return the SQLite database to which this file belongs, such as `shop.db` for `shop.db-wal`, or None."""
    databases = (path.with_name(path.name.removesuffix(end)) for end in _COMPANIONS if path.name.endswith(end))
    return next(filter(is_database, databases), None)


def is_database(path: Path) -> bool:
    """Return whether the file is a database of SQLite."""
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


def _companions_in(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if database_of(Path(folder, name))}


def _copy_file(place: Path, source: str | Path, target: str | Path) -> None:
    source, target = Path(source), Path(target)
    if not target.parent.resolve().is_relative_to(place):
        raise OSError(f"{target.parent} is a link out of {place}")
    # A new file is never mixed with what an earlier server left, or written through a link of the revision.
    for end in ("", *_COMPANIONS):
        target.with_name(f"{target.name}{end}").unlink(missing_ok=True)
    if is_database(source):
        _back_up(source, target)
        shutil.copymode(source, target)
    else:
        shutil.copy2(source, target)


def _back_up(source: Path, target: Path) -> None:
    """Copy a database with all committed transactions, even while another program writes to it."""
    began_s = time.monotonic()

    def wait(status: int, _left: int, _pages: int) -> None:  # `backup` itself would wait forever
        if status in _LOCKED and time.monotonic() > began_s + LOCKED_LIMIT_S:
            raise sqlite3.OperationalError("another program locks it")

    # Closing the last connection that may write would move the write-ahead log into the user's file.
    mode = "ro" if source.with_name(f"{source.name}-wal").exists() else "rw"
    theirs = sqlite3.connect(f"{source.absolute().as_uri()}?mode={mode}", uri=True, timeout=1.0)
    ours = sqlite3.connect(target)
    try:
        theirs.backup(ours, progress=wait)
    finally:
        theirs.close()
        ours.close()
