"""A shutdown alarm that goes off while the interpreter already exits doesn't change the exit status."""

import os
import signal
import subprocess
import sys

from conftest import ROOT

# What is registered first happens last: after that Python only puts itself away, and handles no signal any more.
ENDING = """
import atexit, os, signal
from common.options import Options
from common.shutdown import on_stop_signal
atexit.register(os.write, 1, b"ending")
on_stop_signal(Options("3_late", "127.0.0.1", 8000, "primes", 1, 0), lambda: None, lambda: 1)
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_an_alarm_that_comes_while_a_server_puts_itself_away_does_not_end_it() -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", ENDING], cwd=ROOT, **pipes) as server:
        assert server.stdout.read(6) == b"ending"
        while server.poll() is None:  # whenever its time is over
            os.kill(server.pid, signal.SIGALRM)
        assert (server.returncode, server.stderr.read()) == (0, b"")
