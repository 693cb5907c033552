"""What a load tool has to be able to say: what starts it, what it gives, and what its output means.

A tool either tells of every single answer as it comes (siege), or only totals when it ends (ab, wrk, locust, stressor);
then it is run in bursts, one after the other, so that one can see how far they differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Protocol


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


class Driver(Protocol):
    """One load tool. Nothing here starts anything."""

    @property
    def name(self) -> str:
        """Of its program."""

    @property
    def program(self) -> str:
        """What is looked for on the PATH, or where it is."""

    @property
    def packages(self) -> Mapping[str, str]:
        """The package that brings it, for each package manager of a system that has one."""

    @property
    def requirement(self) -> str:
        """The package on PyPI that brings it, with the versions that this driver supports; empty if there is none."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The files that it wants to find in its home whatever it is to do, by their paths there."""

    def version_command(self, program: str) -> Sequence[str]:
        """The words that make it say which it is."""

    def version(self, said: str) -> str:
        """From what it says then; such as `4.0.7`."""

    def refusal(self, order: LoadSpec) -> str:
        """Why it can't do that, in one line; empty if it can."""

    def files(self, order: LoadSpec) -> Mapping[str, str]:
        """The files that it wants to find in its home for this, by their names there."""

    def command(self, program: str, home: Path, order: LoadSpec) -> Sequence[str]:
        """The words that start it. It is ended by SIGTERM."""

    @property
    def tells_percentiles(self) -> bool:
        """Whether it tells of single answers, or how long so many per cent of them took."""

    @property
    def is_imitated(self) -> bool:
        """Whether requests of ours are to be like its own, because it only counts what comes."""

    @property
    def supports_multiple_paths(self) -> bool:
        """Whether it can ask for one of several paths at random."""

    @property
    def streams_responses(self) -> bool:
        """Whether it tells of single answers; the next four are for those that do, and the rest for the others."""

    @property
    def step_s(self) -> float:
        """In which it tells how long a request took."""

    def arrival(self, line: str) -> ToolResponse | None:
        """What a line of its stdout means; None if it is no answer."""

    @property
    def waits_to_begin(self) -> bool:
        """Whether it takes long to start: it prints `ready` then, and begins when it gets a line."""

    def failures(self, report: str, statuses: Sequence[int]) -> int:
        """How many requests got no answer at all, given the end of its stderr and the statuses of all answers."""

    @property
    def least_s(self) -> float:
        """No burst is shorter, because the tool would tell too little, or spend its time with starting."""

    @property
    def start_s(self) -> float:
        """How long it takes about until it asks for the first time, and from its last answer to its end."""

    @property
    def results(self) -> Sequence[str]:
        """The names of the files that it writes in its home."""

    def cpus(self, order: LoadSpec) -> int:
        """How many CPUs it can use at the most."""

    def totals(self, told: ToolOutput, order: LoadSpec) -> Totals | None:
        """What it means that it said all this; None if it tells nothing."""


class TellsTotals:
    """What all drivers have in common whose tools tell nothing before their end."""

    packages: Mapping[str, str] = MappingProxyType({})
    requirement = ""
    settings: Mapping[str, str] = MappingProxyType({})
    streams_responses = supports_multiple_paths = waits_to_begin = is_imitated = False
    tells_percentiles = True
    step_s = 0.0
    least_s, start_s = 1.0, 0.02
    results: Sequence[str] = ()

    def files(self, order: LoadSpec) -> Mapping[str, str]:  # noqa: ARG002 (as the others)
        """None."""
        return {}

    def arrival(self, line: str) -> ToolResponse | None:  # noqa: ARG002 (as the others)
        """Never one."""
        return None

    def failures(self, report: str, statuses: Sequence[int]) -> int:  # noqa: ARG002 (as the others)
        """They are in the totals."""
        return 0


def whole_seconds(time_s: float) -> int:
    """For a tool that knows no others."""
    return max(1, round(time_s))


def only_for_a_time(name: str, order: LoadSpec) -> str:
    """The refusal of a tool that can't count."""
    return f"{name} can't send a number of requests, only run for a time; take time, or ab" if order.requests else ""


def only_asks(name: str, order: LoadSpec) -> str:
    """The refusal of a tool that has no scripts of ours."""
    return f"{name} can't perform a script; take locust, or stressor" if order.script else ""


def only_one_thread(name: str, order: LoadSpec) -> str:
    """The refusal of a tool that has no more."""
    return f"{name} has one thread, not {order.threads}; take threads = 1, or wrk" if order.threads > 1 else ""
