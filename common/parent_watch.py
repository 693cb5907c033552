"""Shared by worker processes: exit with the server, and ignore its signals."""

import multiprocessing
import os
import signal
import threading
import time

LOOK_S = 0.2


def follow_server() -> None:
    """Make this worker process exit with its server, even if the server is killed.

    Ctrl-C in a terminal and a SIGTERM to the process group don't reach the worker: it would drop the request that the
    server is about to finish. SIGTERM still ends the worker, because its pool stops workers with it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgrp()
    threading.Thread(target=_end_with_server, name="follow_server", daemon=True).start()


def follow_parent(parent: int) -> None:
    """Makes this process, which its server has forked, end with it, even in the midst of a task."""
    threading.Thread(target=_end_with_parent, args=(parent,), name="follow_parent", daemon=True).start()


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_S)
    os._exit(0)


def _end_with_server() -> None:
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()  # a server that was killed has not told its workers
        os._exit(0)
