"""Run a program that is killed when its parent exits."""

import ctypes
import os
import signal
import sys

SET_PDEATHSIG = 1  # prctl(2)


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends. Linux only; elsewhere it may outlive a killed parent."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent ended before the call
            os.kill(os.getpid(), signal.SIGKILL)
