"""Tasks for the process pool. This module doesn't import the web framework, so that workers start quickly."""

import signal


def start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # workers ignore Ctrl-C, because the server stops them


def build_report() -> int:
    return sum(number * number % 7 for number in range(250_000))  # about 12 ms of CPU time
