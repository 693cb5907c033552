"""What finds the processes that a test has left: it must see them, and nobody else's."""

import os
import signal
import subprocess

import psutil
import pytest
from conftest import wait_until
from left_behind import described, end, marking

SLEEP = ["sleep", "60"]


def test_a_process_that_is_left_is_found_wherever_it_hides() -> None:
    with marking() as left:
        child = subprocess.Popen(SLEEP)
        subprocess.run(["bash", "-c", "setsid sleep 61 &"], stdout=subprocess.DEVNULL, check=True)
        wait_until(lambda: described(left()).count("sleep 6") == 2)
        wait_until(lambda: end(left()) or not left())  # one that becomes another program just then shows nothing
        child.wait()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of a process with threads, as pytest may be
def test_one_that_was_forked_and_is_still_the_same_program_is_found() -> None:
    with marking() as left:
        forked = os.fork()
        if forked == 0:
            signal.pause()
        assert [process.pid for process in left()] == [forked]
        end(left())
        os.waitpid(forked, 0)
        assert left() == []


def test_what_somebody_else_has_started_is_not() -> None:
    with marking() as others:
        child = subprocess.Popen(["bash", "-c", "sleep 62; true"])
        with marking() as left:
            wait_until(lambda: psutil.Process(child.pid).children())
            assert left() == []
        wait_until(lambda: len(others()) == 2)
        end(others())
        child.wait()
