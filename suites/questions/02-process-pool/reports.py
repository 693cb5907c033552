"""What the workers import: not the web framework."""

import signal


def start_worker() -> None:  # runs first in each worker; open its connections here
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C must stop the server first, and then its workers


def build_report(size: int) -> int:  # about 12 ms of computing for 250,000
    return sum(number * number % 7 for number in range(size))
