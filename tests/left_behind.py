"""What a test has started and left behind: known by a mark that every child inherits in its environment.

So tests that run at the same time, and whatever else this machine does, don't disturb each other.
"""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator

import psutil

MARK = "UNDER_SIEGE_TEST"
Look = Callable[[], list[psutil.Process]]


@contextlib.contextmanager
def marking() -> Iterator[Look]:
    """Marks what is started in the body; yields what finds those of them that are still there."""
    before, outer, mark = set(psutil.pids()), os.environ.get(MARK), uuid.uuid4().hex
    os.environ[MARK] = mark
    try:
        yield lambda: [process for process in _since(before) if _is_marked(process, mark) or _is_our_child(process)]
    finally:
        os.environ.pop(MARK)
        if outer is not None:
            os.environ[MARK] = outer


def described(processes: list[psutil.Process]) -> str:
    """Their command lines."""
    told = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            told.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
    return "; ".join(told)


def end(processes: list[psutil.Process]) -> None:
    """So that the next test does not suffer from them."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _since(before: set[int]) -> Iterator[psutil.Process]:
    for pid in set(psutil.pids()) - before:
        with contextlib.suppress(psutil.Error):
            yield psutil.Process(pid)


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False  # gone, a zombie, or someone else's


def _is_our_child(process: psutil.Process) -> bool:
    """One that was forked and has not become another program shows the environment that this one began with."""
    with contextlib.suppress(psutil.Error):
        return process.ppid() == os.getpid() and process.status() != psutil.STATUS_ZOMBIE
    return False
