"""The task: a stream of 50 server-sent events. Before each event, the server computes and then waits."""

import time
from collections.abc import Iterator

EVENTS = 50
STEPS = {"chat": 50_000, "compute": 375_000}  # about 2 ms and 15 ms of CPU time for each event
WAIT_S = {"chat": 0.02, "compute": 0.0}


def make_event(kind: str, number: int) -> str:
    total = sum(step * step % 7 for step in range(number, number + STEPS[kind]))
    return f"data: {number} {total}\n\n"


def blocking_events(kind: str) -> Iterator[str]:
    for number in range(EVENTS):
        event = make_event(kind, number)
        time.sleep(WAIT_S[kind])
        yield event
