"""What trying a task found, step by step; a step that was not reached or failed is None or has its error."""

import msgspec

BUSY_PCT = 10.0  # of all CPUs; a quiet machine has 1 or 2


class Alone(msgspec.Struct, frozen=True):
    """The first run."""

    wall_s: float = 0.0
    cpu_s: float = 0.0  # of all threads of the process
    memory_bytes: int = 0
    answer: str = ""  # the beginning of it
    answer_bytes: int = 0
    has_cache: bool = False  # one of functools, that can be seen
    error: str = ""


class Effects(msgspec.Struct, frozen=True):
    """What it did beside answering."""

    forks: int = 0
    children: int = 0  # processes that it left behind
    printed_bytes: int = 0
    error: str = ""


class Again(msgspec.Struct, frozen=True):
    """Some more runs: the fastest, and how many different answers."""

    wall_s: float = 0.0
    cpu_s: float = 0.0  # of all threads of the process
    runs: int = 0
    answers: int = 0
    error: str = ""


class Yields(msgspec.Struct, frozen=True):
    """How often it gives way, how often of that it waits, and the longest time in between."""

    yields: int = 0
    waits: int = 0
    longest_s: float = 0.0
    error: str = ""


class Threads(msgspec.Struct, frozen=True):
    """Two at once in threads, against one alone in a thread; and how long a third thread had to wait at the most."""

    alone_s: float = 0.0
    two_s: float = 0.0
    stalled_s: float = 0.0
    threads_left: int = 0
    error: str = ""


class Machine(msgspec.Struct, frozen=True):
    """What else it did while all that was looked at."""

    others_pct: float = 0.0  # of all CPUs
    error: str = ""

    @property
    def is_busy(self) -> bool:
        """Whether the figures are worth less for it."""
        return self.others_pct > BUSY_PCT


class Elsewhere(msgspec.Struct, frozen=True):
    """In another process, or in a sub-interpreter."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    costs_s: float = 0.0  # of sending it there and the answer back
    start_s: float = 0.0  # of the first one, with starting the worker
    sent_bytes: int = 0
    error: str = ""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    task: str
    python: str
    free_threaded: bool
    cpus: int
    missing: list[str] = []  # packages that this Python can't have
    stopped: str = ""  # why not every step was reached
    alone: Alone | None = None
    effects: Effects | None = None
    again: Again | None = None
    yields: Yields | None = None
    threads: Threads | None = None
    machine: Machine | None = None
    process: Elsewhere | None = None
    interpreter: Elsewhere | None = None
