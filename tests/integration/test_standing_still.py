"""That a machine stood still is seen by who watches it: here only the watcher itself does."""

import signal
import time

import psutil
from conftest import wait_until
from standing_still import watching


def test_how_long_nothing_ran_is_told() -> None:
    with watching() as longest_s:
        watcher = wait_until(lambda: next((one for one in psutil.Process().children() if "-S" in one.cmdline()), None))
        wait_until(lambda: watcher.status() == psutil.STATUS_SLEEPING)
        time.sleep(0.05)
        watcher.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        watcher.send_signal(signal.SIGCONT)
    assert 0.3 <= longest_s() < 30


def test_no_time_is_no_time() -> None:
    with watching() as longest_s:
        pass
    assert longest_s() >= 0
