"""The check for leftover processes finds all processes that a test leaves behind, and no others."""

import os
import signal
import subprocess

import pytest
from conftest import wait_until
from leftover_processes import described, end, marking

SLEEP = ["sleep", "60"]


def test_child_processes_and_daemons_left_by_a_test_are_found() -> None:
    with marking() as left:
        child = subprocess.Popen(SLEEP)
        subprocess.run(["bash", "-c", "setsid sleep 61 &"], stdout=subprocess.DEVNULL, check=True)
        wait_until(lambda: described(left()).count("sleep 6") == 2)
        wait_until(
            lambda: end(left()) or not left()
        )  # retry, because a process that is calling exec has no environment
        child.wait()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # pytest may have threads
def test_a_process_forked_by_a_test_is_found_even_if_it_never_called_exec() -> None:
    with marking() as left:
        forked = os.fork()
        if forked == 0:
            signal.pause()
        assert [process.pid for process in left()] == [forked]
        end(left())
        os.waitpid(forked, 0)
        assert left() == []
