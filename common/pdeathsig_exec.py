"""Becomes another program, which ends with the process that has started it and not with the group of that one.

`python follower.py PID PROGRAM ARGUMENTS`. Ctrl-C in a terminal and a service manager's SIGTERM reach every process of
a group or service: a broker or worker that obeyed would drop what the server is about to finish.
"""

import ctypes
import os
import signal
import sys

SET_PDEATHSIG = 1  # prctl(2)


def end_with(parent: int) -> None:
    """Makes this process be killed when its parent ends; where the system can't, it has to be ended by others."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it was quicker
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _, number, *command = sys.argv
    end_with(int(number))
    os.setpgrp()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    os.execvp(command[0], command)  # noqa: S606
