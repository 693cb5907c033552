"""Shut a server down: after SIGTERM or Ctrl-C it finishes in-flight requests, for at most 5 s."""

import atexit
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Callable
from types import FrameType

from common.options import Options
from common.process_tree import descendants

GRACE_S = 5.0


def on_stop_signal(options: Options, stop: Callable[[], object], unanswered: Callable[[], int]) -> None:
    """Call `stop` at SIGTERM or Ctrl-C; after `GRACE_S` report unanswered requests and kill this process tree.

    The time limit is a signal, not a thread, so that it works while a task computes on the main thread.
    """

    def start_shutdown(_signal: int, _frame: FrameType | None) -> None:
        if not signal.getitimer(signal.ITIMER_REAL)[0]:  # a second signal does not extend the time
            signal.setitimer(signal.ITIMER_REAL, GRACE_S)
        stop()

    def end_now(_signal: int, _frame: FrameType | None) -> None:
        sys.setswitchinterval(1e-6)  # otherwise computing threads delay this handler
        report_dropped(options, unanswered())
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # hides what other threads print when children exit
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if util := sys.modules.get("multiprocessing.util"):  # after os._exit it does not clean up
            shutil.rmtree(util.get_temp_dir(), ignore_errors=True)
        os._exit(0)

    signal.signal(signal.SIGALRM, end_now)
    # While Python shuts down it runs no signal handlers, and the alarm would kill the process.
    atexit.register(signal.signal, signal.SIGALRM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, start_shutdown)
    signal.signal(signal.SIGTERM, start_shutdown)


def report_dropped(options: Options, count: int) -> None:
    """Print how many requests were dropped, if any. Safe in a signal handler: a single write to stderr."""
    if count > 0:
        requests = "1 request" if count == 1 else f"{count} requests"
        os.write(2, f"{options.name}: {requests} dropped, not done within {GRACE_S:g} s\n".encode())
