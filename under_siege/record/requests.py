"""Define the table of requests: one row for each request that was sent, whoever sent it and however it ended.

The outcomes add up to what was sent (conservation): exactly if the bench's client sends the requests, within the number
of users with siege, which drops requests in flight silently. A tool that reports only totals has no rows (`Bursts`).
"""

from collections.abc import Collection, Iterable
from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

# Limits of the values in untrusted files: larger than any measurement, but small enough to compute with.
LONGEST_S = 1e6
LARGEST_INDEX = 10**6
LARGEST = 2**53

Index = Annotated[int, Meta(ge=-1, le=LARGEST_INDEX)]  # the number of a CPU, user or request; -1: unknown
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Status = Annotated[int, Meta(ge=0, le=999)]
Moment = Annotated[float, Meta(ge=-LONGEST_S, le=LONGEST_S)]  # seconds since the load began; may be negative
Microseconds = Annotated[int, Meta(ge=-1, le=10**12)]  # -1: none

Sender = Literal["load", "ping", "lone_ping", "check"]
LOAD: Sender = "load"
PING: Sender = "ping"  # a health check at a fixed rate
LONE_PING: Sender = "lone_ping"  # one in a pause of the others
CHECK: Sender = "check"  # verifies a response under load or, in a drill, that the server has recovered

Outcome = Literal["correct", "wrong", "refused", "limited", "lost", "late", "open"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
CORRECT: Outcome = "correct"
WRONG: Outcome = "wrong"  # any other response
REFUSED: Outcome = "refused"  # status 503
LIMITED: Outcome = "limited"  # status 429
LOST: Outcome = "lost"  # no response, or an incomplete one
LATE: Outcome = "late"  # no response before the timeout
OPEN: Outcome = "open"  # cut off by the end of the load
FAILED_OUTCOMES = (LOST, LATE, WRONG)  # the server neither answered correctly nor asked the client to come back
NO_STATUS = 0  # the status of a request without a response
REFUSALS: dict[int, Outcome] = {429: LIMITED, 503: REFUSED}


class Requests(msgspec.Struct, frozen=True):
    """All requests, in columns. Times are in seconds since the load began."""

    sender: list[Sender] = []
    user: list[Index] = []  # -1 if it is unknown; in an open loop, each request has a user of its own
    request: list[Index] = []  # index in `Record.mix`; 0 if all requests are equal, -1 if it is unknown
    due_s: list[Moment] = []  # when it should have been sent; in a closed loop, when it was sent
    sent_s: list[Moment] = []
    ended_s: list[Moment] = []  # the end of the response, the timeout or, for `open`, the end of the load
    status: list[Status] = []
    size_bytes: list[Count] = []
    outcome: list[Outcome] = []
    problem: list[str] = []  # what is wrong, for people; many rows have no text
    # Of streams: the time from the request to its first event, and the times between its events. Both columns are empty
    # if no response is a stream.
    first_us: list[Microseconds] = []
    gaps_us: list[list[Microseconds]] = []

    def __len__(self) -> int:
        return len(self.outcome)

    def add(
        self,
        sender: Sender,
        *,
        sent_s: float,
        ended_s: float,
        outcome: Outcome,
        due_s: float | None = None,
        user: int = -1,
        request: int = 0,
        status: int = NO_STATUS,
        size_bytes: int = 0,
        problem: str = "",
        events: tuple[int, list[int]] | None = None,
    ) -> None:
        """Add a row. `events` are the microseconds to the first event of a stream (-1: none) and between its events."""
        row = (
            sender,
            user,
            request,
            round(sent_s if due_s is None else due_s, 6),
            round(sent_s, 6),
            round(ended_s, 6),
            status,
            size_bytes,
            outcome,
            problem,
        )
        for name, value in zip(self.__struct_fields__, row, strict=False):
            getattr(self, name).append(value)
        if events or self.first_us:
            first_us, gaps_us = events or (-1, [])
            missing = len(self) - 1 - len(self.first_us)  # rows that are no streams, before the first stream
            self.first_us.extend([-1] * missing)
            self.gaps_us.extend([] for _ in range(missing))
            self.first_us.append(first_us)
            self.gaps_us.append(gaps_us)

    def only(self, *senders: Sender) -> "Requests":
        """Return the rows of these senders."""
        return self.rows(index for index, sender in enumerate(self.sender) if sender in senders)

    def rows(self, indexes: Iterable[int]) -> "Requests":
        """Return the rows with these indexes."""
        chosen = list(indexes)
        columns = (getattr(self, name) for name in self.__struct_fields__)
        return Requests(*([column[index] for index in chosen] if column else [] for column in columns))


def outcome_of(status: int, right_statuses: Collection[int], *, has_right_body: bool = True) -> Outcome:
    """Return the outcome of a complete response."""
    if status in right_statuses:
        return CORRECT if has_right_body else WRONG
    return REFUSALS.get(status, WRONG)


def close_loop(requests: Requests, users: int, end_s: float) -> None:
    """Add an `open` row for each user of a closed loop without pauses whose tool drops requests in flight silently."""
    last_s: dict[int, float] = {}
    for sender, user, ended_s in zip(requests.sender, requests.user, requests.ended_s, strict=True):
        if sender == LOAD:
            last_s[user] = max(ended_s, last_s.get(user, 0.0))
    for user in {*range(users), *last_s}:
        if (began_s := last_s.get(user, 0.0)) < end_s:
            requests.add("load", user=user, request=-1, sent_s=began_s, ended_s=end_s, outcome="open")
