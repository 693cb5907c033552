"""A suite: targets that are compared under one load, and the one that is the ceiling of the others."""

from dataclasses import dataclass, field
from pathlib import Path

from under_siege.model.case import Value
from under_siege.model.target import Amount, Target
from under_siege.model.threshold import Required

SAME, JSON, ANY = "same", "json", "any"  # how bodies are compared: in bytes, as JSON, not at all
READY_WITHIN_S = 15.0
JOBS = "jobs"  # as the tool of a load: each user posts a job, and then asks for its answer
OPEN = "open"  # as the tool of a load: arrivals at a rate, whatever became of the earlier ones


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent, beside the users, which are an axis."""

    tool: str = "siege"
    path: str = "/"  # with axes in braces: `/report?size={size}`
    time_s: float | None = None  # None: as long as each case needs
    requests: int | None = None  # so many instead of so long
    keep_alive: bool = False
    threads: int = 1  # of the tool, where it may have several
    options: tuple[str, ...] = ()  # further words for the tool
    own_network: bool = False  # a network namespace of its own, with its own ports
    ports: int | None = None  # so many of them only, none of which is given out again before its minute is over
    warm_up: Amount | None = None  # of the same load before what counts
    files: str = ""  # a folder: the path has the place {file} for another one of its files each time
    script: str = ""  # the text of what each user does, in place of asking for the path again and again

    @property
    def posts_jobs(self) -> bool:
        """Whether answers are those of jobs."""
        return self.tool == JOBS


@dataclass(frozen=True, slots=True)
class Expect:
    """What is a right answer."""

    status: int = 200
    body: str = SAME
    reference: bytes | None = None  # None: the first right answer
    check: tuple[str, ...] = ()  # a command that looks after each load whether all is right


@dataclass(frozen=True, slots=True)
class Ping:
    """The trivial request, and what is right for an answer: any status below 400, or that body with 200."""

    path: str = "/ping"
    body: bytes | None = None

    def fits(self, status: int, body: bytes) -> bool:
        """Whether an answer is right."""
        return status < 400 if self.body is None else status == 200 and body == self.body


PONG = Ping("/ping", b"pong")  # of the server contract


@dataclass(frozen=True, slots=True)
class Suite:
    """What is compared."""

    targets: tuple[Target, ...]
    ceiling: Target | None
    load: Load = Load()
    axes: dict[str, tuple[Value, ...]] = field(default_factory=dict)  # and the values that are measured
    expect: Expect = Expect()
    ping: Ping | None = PONG
    prepare: tuple[str, ...] = ()  # a command that has to have been run before any server is started
    ready_within_s: float = READY_WITHIN_S
    title: str = ""
    source: str = ""  # the file that it comes from, as it was named
    folder: Path | None = None  # where its commands run; None: where the bench does
    has_task: bool = True  # whether what is asked for is a task of ours, which can be performed without any server
    required: tuple[Required, ...] = ()
