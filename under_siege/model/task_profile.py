"""Define the profile of a task, step by step. A step that was not reached is None; a failed step has an error."""

import msgspec

from under_siege.monitors.machine_speed import BUSY_PCT


class FirstRun(msgspec.Struct, frozen=True):
    wall_s: float = 0.0
    cpu_s: float = 0.0  # CPU time of all threads of the process
    memory_bytes: int = 0
    answer: str = ""  # the beginning of the answer
    answer_bytes: int = 0
    has_cache: bool = False  # whether a cache of functools is visible
    error: str = ""


class SideEffects(msgspec.Struct, frozen=True):
    forks: int = 0
    children: int = 0  # processes that still run after the task
    printed_bytes: int = 0
    error: str = ""


class RepeatedRuns(msgspec.Struct, frozen=True):
    """The fastest of several runs, and the number of different answers."""

    wall_s: float = 0.0
    cpu_s: float = 0.0  # CPU time of all threads of the process
    runs: int = 0
    answers: int = 0
    error: str = ""


class Yields(msgspec.Struct, frozen=True):
    yields: int = 0
    waits: int = 0  # how many of the yields wait for something
    longest_s: float = 0.0  # longest time between two yields
    error: str = ""


class ThreadRuns(msgspec.Struct, frozen=True):
    """One run in a thread, two runs in concurrent threads, and the longest delay of a third thread meanwhile."""

    alone_s: float = 0.0
    two_s: float = 0.0
    stalled_s: float = 0.0
    threads_left: int = 0
    error: str = ""


class OtherPrograms(msgspec.Struct, frozen=True):
    others_pct: float = 0.0  # percentage of all CPUs that other programs used during the trial
    error: str = ""

    @property
    def is_busy(self) -> bool:
        """Return whether other programs make the figures unreliable."""
        return self.others_pct > BUSY_PCT


class WorkerRun(msgspec.Struct, frozen=True):
    """A run in another process, or in a sub-interpreter."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    costs_s: float = 0.0  # time to send the task and the answer
    start_s: float = 0.0  # time of the first run, including the start of the worker
    sent_bytes: int = 0
    error: str = ""


class TaskProfile(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    python: str
    free_threaded: bool
    cpus: int
    missing: list[str] = []  # packages that are not available for this Python
    stopped: str = ""  # why later steps were not reached
    alone: FirstRun | None = None
    effects: SideEffects | None = None
    again: RepeatedRuns | None = None
    yields: Yields | None = None
    threads: ThreadRuns | None = None
    machine: OtherPrograms | None = None
    process: WorkerRun | None = None
    interpreter: WorkerRun | None = None
