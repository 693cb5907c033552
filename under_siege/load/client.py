"""Drive the bench's own client, which can do what some tools can't: users who pause or log in, and a fixed rate."""

import itertools
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from under_siege.load.request import CLIENT, Pause, Request, RightAnswer, SetupRequest
from under_siege.load.simulated_user import ARRIVING
from under_siege.load.tool import Driver, LoadSpec
from under_siege.paths import script
from under_siege.record.record import CaseFailedError
from under_siege.record.requests import LARGEST, Outcome, Requests, Sender

COMMAND = [sys.executable, *script("client")]
AFTER_A_FAILURE_S = 0.1  # pause of a user after a request that was not answered correctly
_MOST_PROBLEMS = 20  # distinct ones
_digits = itertools.cycle(range(1, 10))  # distinguish the values of the clients that run at the same time
SETUP = "setup"  # key of the requests before the load, and of the reason, in the client's report, why one failed


class SetupOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A line for the client before the order, for users who send requests before the load; the client answers it."""

    setup: tuple[SetupRequest, ...]
    url: str  # of the server
    users: int
    digit: int = msgspec.field(default_factory=lambda: next(_digits))  # the last digit of all {n} of this process


class SentRequest(msgspec.Struct, frozen=True):
    """A request of an order. All but the method may contain placeholders such as {n}."""

    url: str
    request: Request
    right: dict[str, Any]  # `RightAnswer.to_json`


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The line that tells the client which load to send."""

    requests: list[SentRequest]
    begin_s: float  # the start of the load, as a time of `time.monotonic`
    turns: Sequence[int] = (0,)  # indexes into `requests`, in the order in which they are sent; the order is repeated
    users: int = 0  # in a closed loop; 0: open loop
    due_s: Sequence[float] = ()  # in an open loop: the time from the start until each request is due
    count: int | None = None  # the number of requests of all users together
    pause: Pause | None = None
    seed: int = 0  # of the pauses
    stagger_s: float = 0.0  # users start at random within this time
    timeout_s: float = 3600.0  # of a response; of a stream: of each of its events
    failure_pause_s: float = AFTER_A_FAILURE_S
    keep_alive: bool = False
    posts_jobs: bool = False  # whether each request posts a job whose result is the response
    is_precise: bool = False  # send requests on time at the cost of memory and other processes, for loads of seconds
    digit: int = msgspec.field(default_factory=lambda: next(_digits))


def line_of(order: SetupOrder | Order) -> bytes:
    return json.dumps(msgspec.to_builtins(order)).encode() + b"\n"


def setup_line(setup: Sequence[SetupRequest], url: str, users: int) -> bytes:
    """Return the line of a setup; `users` is 0 for an open loop."""
    return line_of(SetupOrder(setup=tuple(setup), url=url, users=users or ARRIVING))


def must_be_set_up(report: dict[str, str]) -> None:
    """Raise CaseFailedError if the client reports that the setup failed, or has exited instead."""
    if reason := report.get(SETUP, "setup: the client exited"):
        raise CaseFailedError("setup_failed", reason)


class ClientRow(NamedTuple):
    """A request that the client reports. Times are those of `time.monotonic`."""

    user: int
    request: int
    due_s: float
    sent_s: float
    ended_s: float
    status: int
    size_bytes: int
    outcome: Outcome
    problem: str


class ClientOutput:
    """Add the requests that the client reports to a table of requests.

    Args:
        began_s: the start of the load, as a time of `time.monotonic`.
        sender: of the rows.
    """

    def __init__(
        self, requests: Requests, began_s: float, sender: Sender = "load", *, has_streams: bool = False
    ) -> None:
        self._requests = requests
        self._began_s = began_s
        self._sender = sender
        self._has_streams = has_streams
        self._waits_us: dict[int, list[int]] = {}  # of the streams in progress, by user
        self._problems = Counter[str]()
        self.reconnected, self.stalls_s = 0, list[float]()

    def take(self, value: Any) -> tuple[int, float, Outcome] | None:
        """Note a value that the client reports; return the user, the end and the outcome if it is a request."""
        match value:
            case [*fields]:
                return self._add(msgspec.convert(fields, ClientRow))
            case {"user": user, "waits_us": waits_us}:
                self._waits_us.setdefault(user, []).extend(min(wait_us, 10**12) for wait_us in waits_us)
            case {"reconnected": reconnected, "stalls_s": stalls_s}:
                self.reconnected, self.stalls_s = reconnected, stalls_s
            case "ready":
                pass
            case _:
                raise ValueError(f"unknown report of the client: {value!r:.200}")
        return None

    def _add(self, row: ClientRow) -> tuple[int, float, Outcome]:
        first_us, *gaps_us = self._waits_us.pop(row.user, None) or [-1]
        if row.problem and len(self._problems) < _MOST_PROBLEMS:
            self._problems[row.problem] += 1
        self._requests.add(
            self._sender,
            user=row.user,
            request=row.request,
            due_s=row.due_s - self._began_s,
            sent_s=row.sent_s - self._began_s,
            ended_s=row.ended_s - self._began_s,
            status=row.status,
            size_bytes=min(row.size_bytes, LARGEST),
            outcome=row.outcome,
            problem=row.problem,
            events=(first_us, gaps_us) if self._has_streams else None,
        )
        return row.user, row.ended_s - self._began_s, row.outcome

    @property
    def problems(self) -> list[str]:
        """Return the distinct problems, the most frequent first."""
        return [problem for problem, _ in self._problems.most_common()]


class Client(Driver):
    """The bench's own client, which runs in a process of its own, verifies and reports every response."""

    name, program = CLIENT, sys.executable
    version_options = ("-I", "-c", "import aiohttp; print('aiohttp', aiohttp.__version__)")
    version_pattern = r"(aiohttp \d\S*)"
    streams_responses = waits_to_begin = counts_requests = sends_mixes = can_pause = sends_arrivals = True
    reads_streams = varies_requests = is_own = True
    fixed_threads = "one thread"
    least_s = start_s = 0.0

    def refusal(self, spec: LoadSpec) -> str:
        if spec.load.options:
            return f"{self.name} accepts no load-tool options; remove `options`"
        return super().refusal(spec)

    def command(self, program: str, home: Path, spec: LoadSpec) -> list[str]:  # noqa: ARG002
        return [program, *COMMAND[1:]]

    def order(self, spec: LoadSpec, begin_s: float) -> bytes:
        rights = spec.rights or (RightAnswer(),) * len(spec.sent)
        given = Order(
            requests=[SentRequest(*sent, right.to_json()) for sent, right in zip(spec.sent, rights, strict=True)],
            begin_s=begin_s,
            turns=spec.order or (0,),
            users=0 if spec.load.arrivals_per_s else spec.users,
            due_s=spec.due_s(),
            count=spec.load.requests,
            pause=spec.load.pause,
            seed=spec.seed,
            stagger_s=spec.stagger_s,
            timeout_s=spec.timeout_s,
            keep_alive=spec.load.keep_alive,
            posts_jobs=self.name != CLIENT,
        )
        return line_of(given)
