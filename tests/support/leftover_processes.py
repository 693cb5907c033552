"""Find processes that a test left behind. They have a mark in their environment, which child processes inherit.

Each test has its own mark, so concurrent tests do not affect each other.
"""

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator

import psutil

from under_siege.host.managed_process import processes
from under_siege.host.process_tree import children, inherited, is_running

MARK = "UNDER_SIEGE_TEST"
Look = Callable[[], list[psutil.Process]]


@contextlib.contextmanager
def marking() -> Iterator[Look]:
    """Mark the processes started in the `with` block; yield a function that returns those still running."""
    before, outer, mark = set(psutil.pids()), os.environ.get(MARK), uuid.uuid4().hex
    os.environ[MARK] = mark
    try:
        yield lambda: _left(before, mark)
    finally:
        os.environ.pop(MARK)
        if outer is not None:
            os.environ[MARK] = outer


def described(processes: list[psutil.Process]) -> str:
    """Return the ids and command lines of the processes."""
    command_lines = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            command_lines.append(f"{process.pid}: {' '.join(process.cmdline())[:200]}")
    return "; ".join(command_lines)


def end(processes: list[psutil.Process]) -> None:
    """Kill the processes."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def _left(before: set[int], mark: str) -> list[psutil.Process]:
    """Return new processes that have the mark, and new children of this process.

    Forked children that have not called exec have no visible mark: /proc shows this process's original environment.
    """
    new = set(psutil.pids()) - before
    ours = new.intersection(children(os.getpid()))
    return processes(pid for pid in new if inherited(pid, MARK) == mark or (pid in ours and is_running(pid)))


def commands(processes: list[psutil.Process]) -> str:
    lines = []
    for process in processes:
        try:
            lines.append(" ".join(process.cmdline()))
        except psutil.Error:
            lines.append("")
    return "\n".join(lines)
