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
    """Calls `stop` at SIGTERM or Ctrl-C, and ends the process and its children if that takes too long.

    The time limit is an alarm, not a thread: it goes off even while a task computes on the main thread.
    Then it is told how many requests are unanswered.
    """

    def begin_to_stop(_signal: int, _frame: FrameType | None) -> None:
        if not signal.getitimer(signal.ITIMER_REAL)[0]:  # told once more it has no more time for it
            signal.setitimer(signal.ITIMER_REAL, GRACE_S)
        stop()

    def end_now(_signal: int, _frame: FrameType | None) -> None:
        sys.setswitchinterval(1e-6)  # every look at a child lets go of the GIL, and threads that compute want it, too
        tell_dropped(options, unanswered())
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # threads of ours notice that children end, and would complain
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(pid, signal.SIGKILL)
        if util := sys.modules.get("multiprocessing.util"):  # which removes the folder of its sockets at any other end
            shutil.rmtree(util.get_temp_dir(), ignore_errors=True)
        os._exit(0)

    signal.signal(signal.SIGALRM, end_now)
    # While Python puts itself away nobody handles the alarm any more, and it would end the process by itself.
    atexit.register(signal.signal, signal.SIGALRM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, begin_to_stop)
    signal.signal(signal.SIGTERM, begin_to_stop)


def tell_dropped(options: Options, count: int) -> None:
    """One line on stderr, if any request was dropped; in one piece, and fit for a signal handler."""
    if count > 0:
        what = "1 request" if count == 1 else f"{count} requests"
        os.write(2, f"{options.name}: {what} dropped, not done within {GRACE_S:g} s\n".encode())
