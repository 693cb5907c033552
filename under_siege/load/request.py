"""Define what is sent: requests, mixes of requests, pings, warm-ups, and the correct response."""

import base64
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from under_siege.load.body_rule import BYTES, BodyRule

RANDOM = "random"  # the order in which a mix is sent, unless it is that of its file
DRAWN = 1000  # the random order of a mix repeats after about this many requests
DEFAULT_TOOL = "siege"
CLIENT = "client"  # load tool: the bench's own client
SSE, LINES, CHUNKS = "sse", "lines", "chunks"  # kinds of streams
STREAMS = (SSE, LINES, CHUNKS)
JOBS = "jobs"  # load tool: each user posts a job and polls for its result
OPEN = "open"  # load tool: requests arrive at a fixed rate, even if earlier requests are unanswered
ACCEPT_ENCODING = "accept-encoding"
FORM = "application/x-www-form-urlencoded"
LONGEST_TIME_S = 86_400.0
FEWEST_PER_S, MOST_PER_S = 1 / 3600, 10_000.0
_UNITS_S = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_PLACEHOLDER = re.compile(r"(?<!\$)\{([a-z][a-z0-9_]*)\}")  # `${name}` is an environment variable


def placeholders(*texts: str) -> list[str]:
    """Return the distinct placeholder names, such as `size` for `{size}`; other braces are literal."""
    return list(dict.fromkeys(name for text in texts for name in _PLACEHOLDER.findall(text)))


def filled(text: str, values: Mapping[str, object]) -> str:
    """Replace the placeholders in the text with their values; keep a placeholder without a value."""
    return _PLACEHOLDER.sub(lambda match: str(values.get(match[1], match[0])), text)


def filled_all(texts: Iterable[str], values: Mapping[str, object]) -> list[str]:
    return [filled(text, values) for text in texts]


def parse_time_s(text: str) -> float | None:
    """Parse `30`, `30s`, `500ms`, `2m` or `1h` into seconds; return None unless it is above 0 and at most a day."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|)", text, re.ASCII)
    time_s = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    return time_s if 0 < time_s <= LONGEST_TIME_S else None


def parse_rate_per_s(text: str) -> float | None:
    """Parse `20/s` or `90/min` into requests per second; return None unless it is possible to send so many."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*/\s*(s|m|min|h)", text, re.ASCII)
    per_s = float(match[1]) / _UNITS_S[match[2]] if match else 0.0
    return per_s if FEWEST_PER_S <= per_s <= MOST_PER_S else None


@dataclass(frozen=True, slots=True)
class Pause:
    """How long a user waits after a response before the next request (think time), in seconds."""

    shortest_s: float
    longest_s: float
    is_exponential: bool = False  # exponentially distributed; then both times are the mean

    @property
    def mean_s(self) -> float:
        return (self.shortest_s + self.longest_s) / 2

    def draw_s(self, draw: random.Random) -> float:
        if self.is_exponential:
            return draw.expovariate(1 / self.mean_s)
        return draw.uniform(self.shortest_s, self.longest_s)

    def draw_rest_s(self, draw: random.Random) -> float:
        """Draw the rest of a pause that is in progress at a random moment, so that a load is stationary from its start.

        A longer pause is in progress more often (Cox, Renewal Theory, 1962, § 5.4).
        """
        if self.is_exponential:
            return self.draw_s(draw)
        while True:  # rejection sampling of a pause in proportion to its length
            pause_s = self.draw_s(draw)
            if draw.random() * self.longest_s <= pause_s:
                return draw.random() * pause_s


def parse_pause(text: str) -> Pause | None:
    """Parse a pause such as `1s`, `0.5s-2s` or `exponential 1s`; return None if the text is no pause."""
    kind, _, mean = text.partition(" ")
    first, dash, last = text.partition("-")
    times_s = [parse_time_s(mean)] * 2 if kind == "exponential" else [_from_zero_s(first), parse_time_s(last or first)]
    shortest_s, longest_s = times_s
    if shortest_s is None or longest_s is None or shortest_s > longest_s or (dash and not last):
        return None
    return Pause(shortest_s, longest_s, kind == "exponential")


def _from_zero_s(text: str) -> float | None:
    return 0.0 if re.fullmatch(r"\s*0\s*s?\s*", text, re.ASCII) else parse_time_s(text.strip())


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The warm-up before the measured load: a number of requests or a duration. If both are None, it is skipped."""

    requests: int | None = None
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """The parts of a request other than its URL."""

    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    @property
    def content_type(self) -> str:
        return next((value for name, value in self.headers if name.lower() == "content-type"), "")

    @property
    def accepted_encodings(self) -> str:
        """Return the value of the header Accept-Encoding, or an empty string for the default of the bench."""
        return next((value for name, value in self.headers if name.lower() == ACCEPT_ENCODING), "")

    def described(self) -> str:
        """Describe the method, and the size and type of the body; return an empty string for a GET request."""
        kind = self.content_type.partition("; boundary=")[0]
        size = f" with {len(self.body):,} bytes of {kind}" if self.body else ""
        return "" if self.method == "GET" else f"{self.method}{size}"

    @property
    def may_be_repeated(self) -> bool:
        """Return whether repeating the request has no side effects (RFC 9110, 9.2.1: safe methods)."""
        return self.method in ("GET", "HEAD", "OPTIONS")


GET = Request()


@dataclass(frozen=True, slots=True)
class Stream:
    """A response that arrives piece by piece, and when to close it before its end."""

    kind: str  # SSE: server-sent events; LINES; CHUNKS: the chunks of the transfer
    most_events: int | None = None  # None: read the stream to its end
    time_s: float | None = None
    # Which events count: those in which the value at one of these JSON paths is not empty, or which one of these
    # patterns, such as `/token/`, matches. Empty: all events count.
    text: tuple[str, ...] = ()


class ErrorEvent(bytes):
    """The data of a server-sent event named `error`."""


@dataclass(frozen=True, slots=True)
class RightAnswer:
    """The correct response to a request."""

    status: int = 200
    rule: BodyRule = BYTES
    answer: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()  # that it must have
    stream: Stream | None = None
    events: tuple[bytes, ...] = ()  # the expected events
    event_count: int | None = None  # their number, or None if any number is correct

    def problem(self, body: bytes, headers: Mapping[str, str]) -> str:
        """Describe how a complete response with the right status differs; return an empty string if it is correct."""
        missing = next((name for name, value in self.headers if headers.get(name.lower()) != value), "")
        return f"the header {missing} is missing or wrong" if missing else self.rule.problem(body, self.answer)

    def to_json(self) -> dict[str, Any]:
        events = [(isinstance(event, ErrorEvent), base64.b64encode(event).decode()) for event in self.events]
        return {**asdict(self), "answer": base64.b64encode(self.answer).decode(), "events": events}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "RightAnswer":
        return cls(
            data["status"],
            msgspec.convert(data["rule"], BodyRule),
            base64.b64decode(data["answer"]),
            tuple((name, value) for name, value in data["headers"]),
            msgspec.convert(data["stream"], Stream | None),
            tuple((ErrorEvent if is_error else bytes)(base64.b64decode(event)) for is_error, event in data["events"]),
            data["event_count"],
        )


@dataclass(frozen=True, slots=True)
class MixedRequest:
    """A request of a mix, which is a load with several different requests."""

    path: str
    request: Request = GET
    weight: int = 1
    status: int = 200  # status of the correct response
    rule: BodyRule = BYTES
    answer: bytes | None = None  # expected body; None: the body of the first response


@dataclass(frozen=True, slots=True)
class SetupRequest:
    """A request that each user sends once before the load, such as a login."""

    path: str
    request: Request = GET
    status: int | None = None  # None: any status below 400


@dataclass(frozen=True, slots=True)
class Load:
    """The requests to send. The number of users is an axis, and therefore not a field."""

    tool: str = DEFAULT_TOOL
    is_tool_given: bool = False  # whether the user chose the tool; otherwise, another one may replace it
    path: str = "/"  # may contain placeholders for axes, such as `/report?size={size}`
    request: Request = GET
    time_s: float | None = None  # None: the bench chooses it for each case
    requests: int | None = None  # number of requests; replaces the duration
    keep_alive: bool = False
    pause: Pause | None = None
    arrivals_per_s: float | None = None  # None: closed loop
    stream: Stream | None = None  # None: a response counts when it is complete
    threads: int = 1  # number of threads of the tool
    options: tuple[str, ...] = ()  # arguments added to the tool's command line
    own_network: bool = False  # whether the run has a network namespace with its own ports
    ports: int | None = None  # number of local ports in that namespace; ports in TIME_WAIT are not reused
    warm_up: WarmUp | None = None
    files: str = ""  # a directory; each request replaces {file} in the path with a random file in it
    script: str = ""  # source code that each user runs instead of requesting the path
    mix: tuple[MixedRequest, ...] = ()  # different requests to send; they replace `path` and `request`
    has_random_order: bool = True  # whether the mix is sent in random order, by weight
    setup: tuple[SetupRequest, ...] = ()  # what each user sends before the load, in this order

    def order(self, seed: int, number: int = 0) -> list[int]:
        """Return the order in which each user repeatedly sends the requests of the mix.

        In random order, their shares are exactly those of their weights. Draw another order, with another `number`, for
        each round: a siege sends only a part of it, in which these shares differ by chance.
        """
        once = [index for index, one in enumerate(self.mix) for _ in range(one.weight)]
        if not self.has_random_order:
            return once
        several = once * max(1, DRAWN // len(once))
        return random.Random(f"{seed} {number}").sample(several, len(several))  # noqa: S311 (not for secrets)

    def described(self) -> str:
        """Describe the requests; return an empty string if they are GET requests for a single path."""
        if not self.mix:
            return self.request.described()
        return f"{len(self.mix)} different requests in {'random' if self.has_random_order else 'a fixed'} order"

    @property
    def posts_jobs(self) -> bool:
        return self.tool == JOBS


@dataclass(frozen=True, slots=True)
class Expect:
    """The correct response."""

    status: int = 200
    rule: BodyRule = BYTES
    reference: bytes | None = None  # None: the body of the first response
    check: tuple[str, ...] = ()  # a command that checks the target after each load
    events: int | None = None  # number of events in a stream; None: as in the first response


PING_INTERVAL_S = 0.05
FREQUENT_S = 0.25


@dataclass(frozen=True, slots=True)
class Ping:
    """The health check. A correct response has status 200 and `body` or, if `body` is None, any status below 300."""

    path: str = "/ping"
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    every_s: float = PING_INTERVAL_S

    @property
    def request(self) -> Request:
        return Request(headers=self.headers)

    @property
    def is_frequent(self) -> bool:
        """Return whether pings come so often that they keep connections and processes of the server awake."""
        return self.every_s <= FREQUENT_S

    def fits(self, status: int, body: bytes) -> bool:
        return status < 300 if self.body is None else status == 200 and body == self.body


@dataclass(frozen=True, slots=True)
class Backlog:
    """The endpoint that reports the number of queued jobs."""

    path: str
    json: str  # path of the number in the JSON response


PONG = Ping("/ping", b"pong")  # the ping of the server contract
