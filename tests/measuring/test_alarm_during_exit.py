"""A shutdown alarm that arrives while the interpreter exits is ignored."""

import os
import signal
import subprocess
import sys

from conftest import ROOT

# The atexit handler that is registered first runs last. After it, Python handles no more signals.
ENDING = """
import atexit, os, signal
from common.options import Options
from common.lifecycle import on_stop_signal
atexit.register(os.write, 1, b"ending")
on_stop_signal(Options("3_late", "127.0.0.1", 8000, "primes", 1, 0), lambda: None, lambda: 1)
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_an_alarm_signal_during_interpreter_exit_does_not_change_the_exit_status() -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", ENDING], cwd=ROOT, **pipes) as server:
        assert server.stdout.read(6) == b"ending"
        while server.poll() is None:  # one of the signals must arrive at the critical moment
            os.kill(server.pid, signal.SIGALRM)
        assert (server.returncode, server.stderr.read()) == (0, b"")
