"""Who descends from whom is what psutil finds, too, which looks at every process of the machine."""

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator

import psutil
import pytest
from conftest import wait_until

from common import process_tree
from common.process_tree import children, descendants, inherited, is_tracker, who_has, works

# A child of the main thread and one of another; theirs have left their session and cleared their environment.
FAMILY = """
import os, signal, sys, threading
def has_children(generations):
    for _ in range(2):
        if not os.fork():
            os.setsid()
            if generations == 1:
                os.execve(sys.executable, [sys.executable, "-c", "input()"], {})
            has_children(generations - 1)
            signal.pause()
threading.Thread(target=lambda: (has_children(1), signal.pause())).start()
has_children(2)
signal.pause()
"""
MEMBERS = 2 + 2 * (1 + 2)


@contextlib.contextmanager
def running(*words: str, **environment: str) -> Iterator[subprocess.Popen]:
    """The process, which is killed at the end with all that it has started."""
    with subprocess.Popen(words, env={**os.environ, **environment}, stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):  # it has ended
                for one in [*psutil.Process(process.pid).children(recursive=True), process]:
                    one.kill()


def as_psutil_says(pid: int, *, recursive: bool) -> set[int]:
    return {one.pid for one in psutil.Process(pid).children(recursive=recursive)}


def test_all_generations_are_found_whichever_thread_has_started_them() -> None:
    with running(sys.executable, "-c", FAMILY) as first:
        wait_until(lambda: len(as_psutil_says(first.pid, recursive=True)) == MEMBERS)
        assert sorted(descendants(first.pid)) == sorted(as_psutil_says(first.pid, recursive=True))
        assert sorted(children(first.pid)) == sorted(as_psutil_says(first.pid, recursive=False))
        assert len(children(first.pid)) == 4


INHERITS = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.run(["bash", "-c", "sleep 60 & sleep 61"])
input()
"""


@pytest.mark.skipif(not process_tree.IS_TOLD, reason="the system does not tell by itself")
def test_one_that_is_inherited_while_they_are_looked_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(sys.executable, "-c", INHERITS) as heir:
        wait_until(lambda: len(as_psutil_says(heir.pid, recursive=True)) == 3)
        (parent,) = psutil.Process(heir.pid).children()
        orphans = as_psutil_says(parent.pid, recursive=True)

        def children_of_who_ends_then(pid: int) -> list[int]:
            found = children(pid)
            if pid == heir.pid and parent.is_running():
                parent.kill()
                wait_until(lambda: as_psutil_says(heir.pid, recursive=False) >= orphans)
            return found

        monkeypatch.setattr(process_tree, "children", children_of_who_ends_then)
        assert set(descendants(heir.pid)) >= orphans


def test_those_with_something_in_their_environment_are_found_and_no_others() -> None:
    value = uuid.uuid4().hex
    longer = f"{value}0"
    with running("sleep", "60", DESCENT=value) as one, running("sleep", "60", DESCENT=longer, OTHER=value) as other:
        wait_until(lambda: who_has("DESCENT", value) == [one.pid])
        wait_until(lambda: inherited(other.pid, "DESCENT") == longer)
        assert inherited(one.pid, "DESCENT") == value
        assert inherited(one.pid, "DESCEN") is None


def test_one_that_has_ended_does_not_work_and_has_nobody() -> None:
    with running("sleep", "60") as process:
        assert works(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not works(process.pid)  # a zombie
        process.wait()
        assert not works(process.pid)
        assert (children(process.pid), descendants(process.pid)) == ([], [])
        assert inherited(process.pid, "PATH") is None


def test_a_tracker_is_known_by_its_command() -> None:
    with (
        running("sh", "-c", "read _; true", "multiprocessing.resource_tracker") as one,
        running("sleep", "60") as other,
    ):
        wait_until(lambda: is_tracker(one.pid))
        wait_until(lambda: "sleep" in psutil.Process(other.pid).name())
        assert not is_tracker(other.pid)
