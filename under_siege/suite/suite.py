"""Define a suite: the targets to compare, the load, and the correct response."""

import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from under_siege.load.body_rule import BYTES, BodyRule
from under_siege.record.case import Case, Value
from under_siege.record.requirement import Required

READY_WITHIN_S = 15.0
RANDOM, IN_FILE = "random", "file"  # orders in which a mix is sent
DRAWN = 1000  # the random order of a mix repeats after this many requests
DRAIN_LIMIT_S = 10.0
JOBS = "jobs"  # load tool: each user posts a job and polls for its result
OPEN = "open"  # load tool: requests arrive at a fixed rate, even if earlier requests are unanswered
SERVICES = ("postgresql", "redis")  # services that `Target.needs` may contain, besides programs
LONGEST_TIME_S = 86_400.0
_UNITS_S = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


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


class Kind(StrEnum):
    """The way in which a strategy runs a long task."""

    IN_LINE = "one after the other"
    SLICES = "in slices on one thread"
    GREENLETS = "a greenlet for each request"
    THREADS = "threads"
    PROCESSES = "processes"
    PREFORK = "processes started before any request"
    INTERPRETERS = "sub-interpreters"
    UNKNOWN = ""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """The warm-up before the measured load: a number of requests or a duration. If both are None, it is skipped."""

    requests: int | None = None
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A demo server, a command that starts a server, a server that is already running, or no server at all.

    A command, URL, environment or requirement may contain placeholders for axes. A command may also contain {host} and
    {port}.
    """

    AXES: ClassVar = ("task", "users", "python", "workers")

    name: str  # file stem; in a plan, with as many parent directories as needed to make it unique
    title: str
    path: Path | None = None  # a script that follows the server contract
    requires: str = ""  # the script's REQUIRES, such as "python>=3.14"
    kind: Kind = Kind.UNKNOWN
    axes: tuple[str, ...] = AXES  # axes on which the target depends
    command: tuple[str, ...] = ()
    command_if: tuple[str, ...] = ()  # arguments to add to the command if all axes that they name have a value
    url: str = ""  # address of the server, unless the bench chooses it
    environment: tuple[tuple[str, str], ...] = ()
    requirements: tuple[str, ...] = ()  # packages to install in a virtual environment for this target
    additions: tuple[str, ...] = ()  # packages to add beside those of its environment, without changing it
    needs: tuple[str, ...] = ()  # programs and services
    ready_within_s: float | None = None  # None: the value of the suite
    prepare: tuple[str, ...] = ()  # command to run in the target's environment before its first start
    headers: tuple[tuple[str, str], ...] = ()  # headers required in each correct response
    warm_up: WarmUp | None = None  # None: the value of the suite
    requests_path: str = ""  # empty: the path of the suite
    takes_jobs: bool = True  # False if the source code has no route for jobs

    @property
    def has_no_server(self) -> bool:
        """Return whether this target is a ceiling for which the users run the task without a server."""
        return not self.command and not self.url

    @property
    def number(self) -> int | None:
        digits = re.match(r"\d+", self.name)
        return int(digits[0]) if digits else None

    def command_for(self, case: Case) -> tuple[str, ...]:
        """Return the command for a case, without replacing placeholders."""
        has_values = all(case.get(name) is not None for name in placeholders(*self.command_if))
        return (*self.command, *self.command_if) if has_values else self.command


NO_SERVER = Target(
    "bare",
    "No server: the users run the task in threads of a few processes; their rate is the ceiling.",
    axes=("task", "users", "path", "python"),
)


@dataclass(frozen=True, slots=True)
class Request:
    """The parts of a request other than its URL."""

    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""

    @property
    def content_type(self) -> str:
        return next((value for name, value in self.headers if name.lower() == "content-type"), "")

    def described(self) -> str:
        """Describe the method, and the size and type of the body; return an empty string for a GET request."""
        size = f" with {len(self.body):,} bytes of {self.content_type}" if self.body else ""
        return "" if self.method == "GET" else f"{self.method}{size}"

    @property
    def may_be_repeated(self) -> bool:
        """Return whether repeating the request has no side effects (RFC 9110, 9.2.1: safe methods)."""
        return self.method in ("GET", "HEAD", "OPTIONS")


GET = Request()


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
class Load:
    """The requests to send. The number of users is an axis, and therefore not a field."""

    tool: str = "siege"
    path: str = "/"  # may contain placeholders for axes, such as `/report?size={size}`
    request: Request = GET
    time_s: float | None = None  # None: the bench chooses it for each case
    requests: int | None = None  # number of requests; replaces the duration
    keep_alive: bool = False
    threads: int = 1  # number of threads of the tool
    options: tuple[str, ...] = ()  # arguments added to the tool's command line
    own_network: bool = False  # whether the run has a network namespace with its own ports
    ports: int | None = None  # number of local ports in that namespace; ports in TIME_WAIT are not reused
    warm_up: WarmUp | None = None
    files: str = ""  # a directory; each request replaces {file} in the path with a random file in it
    script: str = ""  # source code that each user runs instead of requesting the path
    mix: tuple[MixedRequest, ...] = ()  # different requests to send; they replace `path` and `request`
    has_random_order: bool = True  # whether the mix is sent in random order, by weight

    def order(self, seed: int) -> list[int]:
        """Return the order in which each user repeatedly sends the requests of the mix."""
        indexes, weights = range(len(self.mix)), [one.weight for one in self.mix]
        if not self.has_random_order:
            return [index for index in indexes for _ in range(weights[index])]
        return random.Random(seed).choices(indexes, weights, k=DRAWN)  # noqa: S311 (not for secrets)

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


@dataclass(frozen=True, slots=True)
class Ping:
    """The health check. A correct response has status 200 and `body` or, if `body` is None, any status below 400."""

    path: str = "/ping"
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def request(self) -> Request:
        return Request(headers=self.headers)

    def fits(self, status: int, body: bytes) -> bool:
        return status < 400 if self.body is None else status == 200 and body == self.body


@dataclass(frozen=True, slots=True)
class Backlog:
    """The endpoint that reports the number of queued jobs."""

    path: str
    json: str  # path of the number in the JSON response


PONG = Ping("/ping", b"pong")  # the ping of the server contract


@dataclass(frozen=True, slots=True)
class UserApplication:
    """An application that is measured without a suite file."""

    name: str  # module:name
    routes: tuple[str, ...] = ()  # such as `/report` or `POST /orders`
    environment: str = ""  # how its Python was found, such as `.venv`
    notes: tuple[str, ...] = ()  # what was chosen for the user


@dataclass(frozen=True, slots=True)
class Suite:
    targets: tuple[Target, ...]
    ceiling: Target | None
    load: Load = Load()
    axes: dict[str, tuple[Value, ...]] = field(default_factory=dict)  # values to measure, by axis
    expect: Expect = Expect()
    ping: Ping | None = PONG
    backlog: Backlog | None = None
    drain_limit_s: float = DRAIN_LIMIT_S
    prepare: tuple[str, ...] = ()  # command to run once before any server starts
    ready_within_s: float = READY_WITHIN_S
    title: str = ""
    source: str = ""  # the path of the suite file, as the user wrote it
    revisions: Mapping[str, Path] = field(default_factory=dict)  # folder of each revision; the base is first
    ignored: tuple[str, ...] = ()  # files that git ignores, so that the base lacks them
    folder: Path | None = None  # working directory of the commands; None: that of the bench
    has_task: bool = True  # whether requests run a task of the bench, which can also run without a server
    required: tuple[Required, ...] = ()
    application: UserApplication | None = None  # None: the suite is a file, or strategies
    keep_environment: bool = True  # whether the servers see settings that change them, such as WEB_CONCURRENCY

    def right_statuses(self) -> set[int]:
        """Return the statuses of correct responses."""
        return {one.status for one in self.load.mix} or {self.expect.status}
