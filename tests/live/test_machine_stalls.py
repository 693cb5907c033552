"""The watcher that measures stalls of the machine; the tests stop the watcher instead of the machine."""

import signal
import time

import psutil
from conftest import wait_until
from machine_stalls import watching


def test_the_stall_watcher_reports_the_duration_of_the_longest_stall() -> None:
    with watching() as longest_s:
        watcher = wait_until(lambda: next((one for one in psutil.Process().children() if "-S" in one.cmdline()), None))
        wait_until(lambda: watcher.status() == psutil.STATUS_SLEEPING)
        time.sleep(0.05)
        watcher.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        watcher.send_signal(signal.SIGCONT)
    assert 0.3 <= longest_s() < 30


def test_the_longest_stall_of_an_empty_period_is_not_negative() -> None:
    with watching() as longest_s:
        pass
    assert longest_s() >= 0
