"""Define the interface to a load tool: its command line, and the meaning of its output.

A tool reports either every response as it arrives (siege), or only totals when it exits (ab, wrk, Locust, stressor).
A tool that reports only totals runs in several bursts, which show how much the totals vary.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from under_siege.load.fresh_values import names_in_request
from under_siege.load.request import CLIENT, Load, Request, RightAnswer
from under_siege.record.record import RequestTotals


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """The load that a tool generates."""

    load: Load
    users: int  # 0 if requests arrive at a given rate
    time_s: float  # approximate; ignored if the load has a number of requests
    url: str  # of the request or, for a mix, of the server; without a server, only its path
    seed: int = 0  # seed of random pauses and arrivals
    paths: tuple[tuple[str, int], ...] = ()  # paths to request at random instead of the URL's path, with body sizes
    folder: str = ""  # the target's directory, for scripts that check stored files
    expected: bytes = b""  # expected body, for tools that compare it; empty if correct bodies can differ
    port: int | None = None  # a free port for communication between the tool's own processes
    timeout_s: float = 3600.0  # timeout of a response
    rights: tuple[RightAnswer, ...] = ()  # the correct response to each request, for tools that verify responses
    stagger_s: float = 0.0  # users start at random within this time
    order: tuple[int, ...] = ()  # indexes into the mix, in the order in which each user repeatedly sends its requests

    @property
    def sent(self) -> list[tuple[str, Request]]:
        """Return the URL of each request, and the request: those of the mix or, without a mix, the only one."""
        return [(self.url_of(one.path), one.request) for one in self.load.mix] or [(self.url, self.load.request)]

    @property
    def fresh_names(self) -> list[str]:
        """Return the names of the placeholders whose values differ each time."""
        return [name for url, request in self.sent for name in names_in_request(url, request)]

    def due_s(self) -> list[float]:
        """Return when each request of an open loop is due, in seconds since the start (Poisson process)."""
        draw, per_s = random.Random(self.seed), self.load.arrivals_per_s or 0.0  # noqa: S311
        return sorted(draw.uniform(0, self.time_s) for _ in range(round(per_s * self.time_s)))

    def url_of(self, path: str) -> str:
        """Return the URL of a request with this path."""
        return self.url.removesuffix("/") + path

    @property
    def headers(self) -> dict[str, str]:
        """Return all headers of the request, including Accept-Encoding and, without keep-alive, Connection."""
        return self.headers_of(self.load.request)

    def headers_of(self, request: Request) -> dict[str, str]:
        encoding = {} if request.accepted_encodings else {"Accept-Encoding": "identity"}
        return encoding | ({} if self.load.keep_alive else {"Connection": "close"}) | dict(request.headers)


@dataclass(frozen=True, slots=True)
class ToolResponse:
    """One response, as the tool reports it."""

    user: int
    status: int
    took_s: float
    size_bytes: int
    path: str = ""  # path, URL or index of the request, if the tool reports it


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Everything that a tool has written by the time it exits."""

    status: int  # exit status; negative if a signal ended the tool
    stdout: str = ""
    stderr: str = ""
    files: Mapping[str, str] = field(default_factory=dict)  # contents of the files named in `Driver.results`


@dataclass(frozen=True, slots=True)
class Totals:
    """The results of one burst, for a row of `Bursts`; `None` means that the tool does not report the value."""

    right: int
    wrong_status: int
    unanswered: int = 0
    connect_errors: int = 0
    took_s: float | None = None
    p50_s: float | None = None
    p95_s: float | None = None
    p99_s: float | None = None
    max_s: float | None = None
    kept_alive: int | None = None
    body_bytes: int | None = None
    wrong_contents: int = 0
    odd_bytes: int | None = None
    requests: Sequence[RequestTotals] = ()  # of each request of a mix


class Driver:
    """The interface to one load tool. It starts no process.

    A tool that reports every response sets `response_line`; any other tool overrides `totals`.
    """

    name = ""
    program = ""  # a path, or a name on the PATH
    packages: Mapping[str, str] = MappingProxyType({})  # system package, by package manager
    requirement = ""  # package on PyPI, with the supported versions
    settings: Mapping[str, str] = MappingProxyType({})  # files in the tool's home that don't depend on the load
    results: Sequence[str] = ()  # files that the tool writes in its home
    version_options: Sequence[str] = ("--version",)
    version_pattern = ""
    response_line: re.Pattern[str] | None = None  # matches a line of stdout; groups: `user`, `status`, `took_s`, `size`
    streams_responses = False  # whether the tool reports every response as it arrives
    reports_percentiles = True
    is_replayed = False  # whether the bench replays the tool's requests itself to check the responses
    counts_requests = False  # whether the tool can send a given number of requests
    runs_scripts = False
    supports_multiple_paths = False  # whether the tool can choose one of several paths at random
    sends_mixes = False  # whether the tool can send different requests
    can_pause = False  # whether users can pause between requests
    reads_streams = False  # whether the tool notes when each event of a stream arrives
    varies_requests = False  # whether users send requests with different values, and those of their setup
    sends_arrivals = False  # whether the tool can send requests at a fixed rate, without waiting for responses
    fixed_threads = ""  # description of the tool's threads, if their number can't be set
    most_users = 1_000_000  # more than any machine supports
    returns_cookies = False  # whether users send the cookies that the server sets
    drops_open_requests = False  # whether the tool silently drops the requests in flight at the end of the load
    is_own = False  # whether it is the bench's own client
    waits_to_begin = False  # whether the tool prints `ready` and then starts the load when it reads a line
    least_s = 1.0  # the shortest useful burst
    start_s = 0.02  # approximate time before the first request plus time after the last response
    step_s = 0.0  # resolution of the response times, if the tool reports every response

    @property
    def described(self) -> str:
        """Return the name of the tool in a sentence."""
        return "the bench's own client" if self.name == CLIENT else self.name

    def version(self, output: str) -> str:
        """Return the version in the output of `version_options`, such as `4.0.7`."""
        match = re.search(self.version_pattern, output, re.MULTILINE)
        return match[1] if match else "unknown"

    def refusal(self, spec: LoadSpec) -> str:
        """Return, in one line, why the tool can't generate this load, or an empty string if it can."""
        if spec.load.arrivals_per_s is not None and not self.sends_arrivals:
            return f'{self.name} can\'t send requests at a given rate; set tool = "{CLIENT}"'
        if spec.load.stream and not self.reads_streams:
            return f'{self.name} can\'t read the events of a stream; remove tool, or set tool = "{CLIENT}"'
        if not self.varies_requests and (spec.load.setup or spec.fresh_names):
            what = "send each user's setup" if spec.load.setup else f"fill in {{{spec.fresh_names[0]}}}"
            return f'{self.name} can\'t {what}; remove tool, or set tool = "{CLIENT}"'
        if spec.load.pause and not self.can_pause:
            return f"{self.name} can't pause between requests; use wrk, locust or {CLIENT}"
        if spec.load.requests is not None and not self.counts_requests:
            return f"{self.name} can't stop after a given number of requests; set a time instead, or use ab"
        if spec.users > self.most_users:
            return f'{self.name} supports at most {self.most_users:,} users; set tool = "wrk", or use fewer users'
        if spec.load.script and not self.runs_scripts:
            return f"{self.name} can't run a script; use locust or stressor"
        if spec.load.mix and not self.sends_mixes:
            return f"{self.name} can only repeat one request; use siege, wrk or locust"
        if spec.load.threads > 1 and self.fixed_threads:
            return f"{self.name} always uses {self.fixed_threads}; remove threads = {spec.load.threads}, or use wrk"
        return ""

    def files(self, spec: LoadSpec) -> dict[str, str | bytes]:  # noqa: ARG002
        """Return the contents of the files that this load needs in the tool's home, by name."""
        return {}

    def command(self, program: str, home: Path, spec: LoadSpec) -> list[str]:
        """Return the command that generates the load. SIGTERM ends the tool."""
        raise NotImplementedError

    def cpus(self, spec: LoadSpec) -> int:
        """Return how many CPUs the tool can use at most."""
        return spec.load.threads

    def parse_line(self, line: str) -> ToolResponse | None:
        """Return the response that a line of stdout reports, or None if it reports none."""
        match = self.response_line and self.response_line.fullmatch(line.rstrip())
        if not match:
            return None
        path = match.groupdict().get("path", "")
        return ToolResponse(int(match["user"]), int(match["status"]), float(match["took_s"]), int(match["size"]), path)

    def failures(self, report: str, statuses: Sequence[int]) -> int:  # noqa: ARG002
        """Return the number of unanswered requests, given the end of stderr and the status of each response."""
        return 0

    def errors(self, report: str) -> list[str]:  # noqa: ARG002
        """Return the distinct errors that the tool reports about its own requests, the most frequent first."""
        return []

    def totals(self, output: ToolOutput, spec: LoadSpec) -> Totals | None:  # noqa: ARG002
        """Return the totals in the output, or None if there are none."""
        return None


def whole_seconds(time_s: float) -> int:
    """Round a time to whole seconds, at least 1 s, for a tool that accepts no fractions."""
    return max(1, round(time_s))
