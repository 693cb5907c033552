"""under_siege.host.process_tree finds the same processes as psutil."""

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator

import psutil
import pytest
from conftest import wait_until

from under_siege.host import process_tree
from under_siege.host.process_tree import (
    children,
    descendants,
    exit_status,
    inherited,
    is_resource_tracker,
    is_running,
    pids_with_variable,
)

# Two threads start processes in new sessions. Processes without children have an empty environment.
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
    """Start a process; kill it and its descendants at the end."""
    with subprocess.Popen(words, env={**os.environ, **environment}, stdin=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):  # the process has already ended
                for member in [*psutil.Process(process.pid).children(recursive=True), process]:
                    member.kill()


def pids_from_psutil(pid: int, *, recursive: bool) -> set[int]:
    return {process.pid for process in psutil.Process(pid).children(recursive=recursive)}


def test_descendants_started_by_any_thread_are_found() -> None:
    with running(sys.executable, "-c", FAMILY) as first:
        wait_until(lambda: len(pids_from_psutil(first.pid, recursive=True)) == MEMBERS)
        assert sorted(descendants(first.pid)) == sorted(pids_from_psutil(first.pid, recursive=True))
        assert sorted(children(first.pid)) == sorted(pids_from_psutil(first.pid, recursive=False))
        assert len(children(first.pid)) == 4


INHERITS = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.run(["bash", "-c", "sleep 60 & sleep 61"])
input()
"""


def test_orphans_reparented_during_the_search_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(sys.executable, "-c", INHERITS) as subreaper:
        wait_until(lambda: len(pids_from_psutil(subreaper.pid, recursive=True)) == 3)
        (parent,) = psutil.Process(subreaper.pid).children()
        orphans = pids_from_psutil(parent.pid, recursive=True)

        def children_and_then_kill(pid: int) -> list[int]:
            found = children(pid)
            if pid == subreaper.pid and parent.is_running():
                parent.kill()
                wait_until(lambda: pids_from_psutil(subreaper.pid, recursive=False) >= orphans)
            return found

        monkeypatch.setattr(process_tree, "children", children_and_then_kill)
        assert set(descendants(subreaper.pid)) >= orphans


def test_processes_are_found_by_an_environment_variable() -> None:
    value = uuid.uuid4().hex
    longer = f"{value}0"
    with running("sleep", "60", DESCENT=value) as one, running("sleep", "60", DESCENT=longer, OTHER=value) as other:
        wait_until(lambda: pids_with_variable("DESCENT", value) == [one.pid])
        wait_until(lambda: inherited(other.pid, "DESCENT") == longer)
        assert inherited(one.pid, "DESCENT") == value
        assert inherited(one.pid, "DESCEN") is None


def test_an_ended_process_has_no_descendants() -> None:
    with running("sleep", "60") as process:
        assert is_running(process.pid)
        assert exit_status(process.pid) is None
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(process.pid)  # a zombie
        assert exit_status(process.pid) == -signal.SIGKILL
        process.wait()
        assert not is_running(process.pid)
        assert (children(process.pid), descendants(process.pid)) == ([], [])
        assert inherited(process.pid, "PATH") is None


def test_a_resource_tracker_process_is_recognized_by_its_command_line() -> None:
    with (
        running("sh", "-c", "read _; true", "multiprocessing.resource_tracker") as one,
        running("sleep", "60") as other,
    ):
        wait_until(lambda: is_resource_tracker(one.pid))
        wait_until(lambda: "sleep" in psutil.Process(other.pid).name())
        assert not is_resource_tracker(other.pid)
