"""The jobs. This module doesn't import the web framework, so the processes of the pool start quickly."""

import asyncio
import signal


def start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C must stop the server first, and then its workers


def build_report() -> int:
    return sum(number * number % 7 for number in range(250_000))  # about 12 ms of computing


async def send_email() -> None:
    await asyncio.sleep(0.2)  # replace this with an async client that has a timeout
