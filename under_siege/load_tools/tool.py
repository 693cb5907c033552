"""What a load tool has to be able to say: what starts it, what it gives, and what its output means.

A tool either tells of every single answer as it comes (siege), or only totals when it ends (ab, wrk, locust, stressor);
then it is run in bursts, one after the other, so that one can see how far they differ.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class LoadSpec:
    """What the tool is to do."""

    users: int
    time_s: float  # about so long, unless it is told a number of requests
    url: str
    requests: int | None = None  # so many instead
    keep_alive: bool = False
    threads: int = 1  # that the tool may have
    options: tuple[str, ...] = ()  # further words of the user's own
    paths: tuple[tuple[str, int], ...] = ()  # to be asked for at random in place of that of the URL; bytes of each
    script: str = ""  # what each user does, in place of asking for the URL again and again
    folder: str = ""  # of the target, where a script may look at what that has stored; empty where there is none
    expected: bytes = b""  # what is right where the URL is asked for, for a script; empty where that may differ
    port: int | None = None  # a free one of this machine, over which its own processes may talk to each other
    patience_s: float = 3600.0  # after which an answer may be given up


@dataclass(frozen=True, slots=True)
class ToolResponse:
    """An answer that came, as the tool tells it."""

    user: int  # its number for the user who asked
    status: int
    took_s: float
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """All that a tool has said once it has ended."""

    status: int  # that it ended with; negative if a signal ended it
    stdout: str = ""
    stderr: str = ""
    files: Mapping[str, str] = field(default_factory=dict)  # that it wrote in its home


@dataclass(frozen=True, slots=True)
class Totals:
    """What a tool tells at its end; None where it tells nothing of that."""

    right: int  # answers whose status is a good one
    wrong_status: int  # all other answers
    unanswered: int = 0  # requests without any answer: not connected, broken off, or given up
    connect_errors: int = 0  # those of them that got no connection
    took_s: float | None = None  # from the first request to the last moment that counts
    p50_s: float | None = None  # of how long answers took
    p95_s: float | None = None
    p99_s: float | None = None
    max_s: float | None = None
    kept_alive: int | None = None  # answers after which the connection stayed
    body_bytes: int | None = None  # of all answers, without their heads
    wrong_contents: int = 0  # those of `wrong_status` that a script found to be of a good status and wrong all the same
    odd_bytes: int | None = None  # so many more or fewer than those of the paths that were asked for


class Driver:
    """One load tool: its command line, and what its output means. It starts nothing.

    A tool that tells of every answer as it comes overrides `arrival`, any other one `totals`.
    """

    name = ""
    program = ""  # looked up on the PATH, or a path
    packages: Mapping[str, str] = MappingProxyType({})  # that bring it, for each package manager of a system
    requirement = ""  # the package on PyPI that brings it, with the supported versions
    settings: Mapping[str, str] = MappingProxyType({})  # files in its home, whatever it is to do
    version_words: Sequence[str] = ("--version",)  # that make it print its version
    version_pattern = ""  # finds that
    streams_responses = False  # whether it tells of every answer as it comes
    tells_percentiles = True  # or of every answer
    is_imitated = False  # whether requests of ours are to be like its own, because it only counts what comes
    supports_multiple_paths = False  # whether it can request one of several paths at random
    results: Sequence[str] = ()  # files that it writes in its home
    least_s = 1.0  # no burst is shorter: the tool would tell too little, or only start
    start_s = 0.02  # about how long it takes to its first request, and from its last answer to its end
    step_s = 0.0  # the resolution of its response times, if it streams them
    waits_to_begin = False  # whether it prints `ready` after a long start, and begins when it gets a line

    def version_command(self, program: str) -> list[str]:
        """Return the words that make it print its version."""
        return [program, *self.version_words]

    def version(self, output: str) -> str:
        """Return the version in that output, such as `4.0.7`."""
        found = re.search(self.version_pattern, output, re.MULTILINE)
        return found[1] if found else "unknown"

    def refusal(self, order: LoadSpec) -> str:
        """Return in one line why it can't do that; empty if it can."""
        raise NotImplementedError

    def files(self, order: LoadSpec) -> Mapping[str, str]:  # noqa: ARG002
        """Return the files that it needs in its home for this, by their names."""
        return {}

    def command(self, program: str, home: Path, order: LoadSpec) -> list[str]:
        """Return the words that start it. SIGTERM ends it."""
        raise NotImplementedError

    def cpus(self, order: LoadSpec) -> int:
        """Return how many CPUs it can use at most."""
        return order.threads

    def arrival(self, line: str) -> ToolResponse | None:  # noqa: ARG002
        """Return what a line of its stdout means; None if it is no answer."""
        return None

    def failures(self, report: str, statuses: Sequence[int]) -> int:  # noqa: ARG002
        """Return how many requests got no answer, from the end of its stderr and the statuses of all answers."""
        return 0

    def totals(self, output: ToolOutput, order: LoadSpec) -> Totals | None:  # noqa: ARG002
        """Return what its output means; None if it has no totals."""
        return None


def whole_seconds(time_s: float) -> int:
    """Return the time for a tool that knows only whole seconds."""
    return max(1, round(time_s))


def only_for_a_time(name: str, order: LoadSpec) -> str:
    """Return the refusal of a tool that can't count."""
    return f"{name} can't send a number of requests, only run for a time; take time, or ab" if order.requests else ""


def only_asks(name: str, order: LoadSpec) -> str:
    """Return the refusal of a tool that can't run our scripts."""
    return f"{name} can't perform a script; take locust, or stressor" if order.script else ""


def only_one_thread(name: str, order: LoadSpec) -> str:
    """Return the refusal of a tool with a single thread."""
    return f"{name} has one thread, not {order.threads}; take threads = 1, or wrk" if order.threads > 1 else ""
