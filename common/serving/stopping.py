"""How a server ends: SIGTERM or Ctrl-C lets it finish what it has begun, for 5 s at most."""

import atexit
import os
import signal
from collections.abc import Callable
from types import FrameType

import psutil

GRACE_S = 5.0


def on_stop_signal(stop: Callable[[], object]) -> None:
    """Calls `stop` at SIGTERM or Ctrl-C, and ends the process and its children if that takes too long.

    The time limit is an alarm, not a thread: it goes off even while a task computes on the main thread.
    """

    def begin_to_stop(_signal: int, _frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, GRACE_S)
        stop()

    signal.signal(signal.SIGALRM, _end_now)
    # While Python puts itself away nobody listens to the alarm any more, and it would end the process by itself.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGINT, begin_to_stop)
    signal.signal(signal.SIGTERM, begin_to_stop)


def _end_now(_signal: int, _frame: FrameType | None) -> None:
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(0)
