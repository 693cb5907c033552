"""What a test has started and left behind: known by a mark that every child inherits in its environment.

So tests that run at the same time, and whatever else this machine does, don't disturb each other.
"""

import contextlib
import os
import sys
import uuid
from collections.abc import Callable, Iterator

import psutil
import pytest

from common.process_tree import children, inherited, works
from under_siege.processes.managed_process import processes

MARK = "UNDER_SIEGE_TEST"
Look = Callable[[], list[psutil.Process]]


@contextlib.contextmanager
def marking() -> Iterator[Look]:
    """Marks what is started in the body; yields what finds those of them that are still there."""
    before, outer, mark = set(psutil.pids()), os.environ.get(MARK), uuid.uuid4().hex
    os.environ[MARK] = mark
    try:
        yield lambda: _left(before, mark)
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


def _left(before: set[int], mark: str) -> list[psutil.Process]:
    """Those that are new and have the mark; and our own children, which may have been forked.

    One that has not become another program shows the environment that this one began with.
    """
    new = set(psutil.pids()) - before
    ours = new.intersection(children(os.getpid()))
    return processes(pid for pid in new if inherited(pid, MARK) == mark or (pid in ours and works(pid)))


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows subreapers")


def commands(processes: list[psutil.Process]) -> str:
    said = []
    for process in processes:
        try:
            said.append(" ".join(process.cmdline()))
        except psutil.Error:
            said.append("")
    return "\n".join(said)
