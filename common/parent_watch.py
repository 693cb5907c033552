"""Make processes exit with their parent, and shield workers from signals to the server."""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time

SET_PDEATHSIG = 1  # prctl(2)
CHECK_INTERVAL_S = 0.2


def exit_with_server() -> None:
    """Make this worker process exit with its server, even if the server is killed.

    The worker leaves the process group, so Ctrl-C in a terminal and a SIGTERM to the group don't reach it, and it
    can finish its request. A SIGTERM to the worker itself still ends it, because pools stop workers with this signal.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgrp()
    threading.Thread(target=_exit_with_server, name="exit_with_server", daemon=True).start()


def exit_with_parent(parent: int) -> None:
    """Make this forked process exit with its parent, even in the middle of a task."""
    threading.Thread(target=_exit_with_parent, args=(parent,), name="exit_with_parent", daemon=True).start()


def die_with_parent(parent: int) -> None:
    """On Linux, make the kernel kill this process when its parent exits."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent exited before the call
            os.kill(os.getpid(), signal.SIGKILL)


def _exit_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(CHECK_INTERVAL_S)
    os._exit(0)


def _exit_with_server() -> None:
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()  # a killed server can't stop its workers
        os._exit(0)
