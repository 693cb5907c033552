"""Change the rows of a simulated table of requests."""

from collections.abc import Callable, Sequence

from under_siege.record.record import Record
from under_siege.record.requests import CORRECT, LOAD, OPEN, PING, Outcome, Requests, Sender


def places(requests: Requests, sender: Sender = LOAD, *, with_open: bool = False) -> list[int]:
    """Return the indexes of the rows of a sender, without requests that the end of the load cut off."""
    rows = enumerate(zip(requests.sender, requests.outcome, strict=True))
    return [index for index, (who, outcome) in rows if who == sender and (with_open or outcome != OPEN)]


def waits_of(requests: Requests, sender: Sender = PING) -> list[float]:
    """Return how long each request of the sender waited, in seconds."""
    return [requests.ended_s[index] - requests.due_s[index] for index in places(requests, sender)]


def set_waits(
    requests: Requests, waited_s: float | Sequence[float] | Callable[[float], float], sender: Sender = PING
) -> None:
    """Set how long requests of a sender waited: one time for all, one for each, or a function of the present one."""
    for number, index in enumerate(places(requests, sender)):
        present_s = requests.ended_s[index] - requests.due_s[index]
        wait_s = (
            waited_s(present_s)
            if callable(waited_s)
            else waited_s[number]
            if isinstance(waited_s, Sequence)
            else waited_s
        )
        requests.ended_s[index] = requests.due_s[index] + wait_s


def set_status(record: Record, status: int, numbers: Sequence[int] | None = None, size_bytes: int = 4) -> None:
    """Set the status and the size of responses under load, by their numbers (None: all)."""
    indexes = places(record.requests)
    for index in indexes if numbers is None else [indexes[number] for number in numbers]:
        record.requests.status[index], record.requests.size_bytes[index] = status, size_bytes
        record.requests.outcome[index] = record.outcome_of(status, size_bytes, record.requests.request[index])


def fail(
    requests: Requests,
    number: int,
    outcome: Outcome,
    problem: str,
    waited_s: float | None = None,
    sender: Sender = PING,
) -> None:
    """Let a request of the sender, given by its number, fail."""
    index = places(requests, sender)[number]
    requests.outcome[index], requests.problem[index], requests.status[index] = outcome, problem, 0
    if waited_s is not None:
        requests.ended_s[index] = requests.due_s[index] + waited_s


def without(record: Record, sender: Sender) -> None:
    """Remove the rows of a sender."""
    record.requests = record.requests.only(*({"load", "ping", "lone_ping", "check"} - {sender}))


def keep_first(record: Record, count: int, sender: Sender = LOAD) -> None:
    """Keep only the first rows of a sender, and none that the end of the load cut off."""
    kept = set(places(record.requests, sender)[:count])
    rows = enumerate(record.requests.sender)
    record.requests = record.requests.rows(index for index, who in rows if who != sender or index in kept)


def add_check(record: Record, sent_s: float, ended_s: float, outcome: Outcome = CORRECT, problem: str = "") -> None:
    record.requests.add("check", sent_s=sent_s, ended_s=ended_s, outcome=outcome, problem=problem)
