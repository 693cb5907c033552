"""The work. This module doesn't import the web framework, so new workers start quickly."""

import signal


def start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C must stop the server first, and then its workers


def build_report() -> int:
    return sum(number * number % 7 for number in range(250_000))  # about 12 ms of computing
