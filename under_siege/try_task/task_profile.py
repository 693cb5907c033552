"""Profile a task without a server, in a process that is stopped if a step takes too long."""

from collections.abc import Callable
from typing import Any

import msgspec

from common.errors import BadInputError
from common.workers import cpu_limit
from under_siege.host.environments import with_packages
from under_siege.host.helper_process import helper
from under_siege.host.interpreter import Interpreter
from under_siege.host.machine_speed import BUSY_PCT
from under_siege.host.managed_process import LOOK_S, final_line, until, until_signal
from under_siege.paths import script
from under_siege.record.result import made_legible

# The timeout of each step after the first run is at least 5 s, and allows 12 runs, each 4 times as long as the first.
_RUNS_OF_A_STEP = 12
_MOST_SLOWDOWN = 4
_SHORTEST_TIMEOUT_S = 5.0
_STEPS = {
    "alone": "the first run",
    "effects": "the check for side effects",
    "again": "later runs",
    "yields": "the check for yields",
    "threads": "the run in two parallel threads",
    "machine": "the check for other programs",
    "process": "the run in another process",
    "interpreter": "the run in a sub-interpreter",
}


class FirstRun(msgspec.Struct, frozen=True):
    wall_s: float = 0.0
    cpu_s: float = 0.0  # CPU time of all threads of the process
    memory_bytes: int = 0
    answer: str = ""  # the beginning of the result
    answer_bytes: int = 0
    has_cache: bool = False  # whether the task is a function with a functools cache
    error: str = ""


class SideEffects(msgspec.Struct, frozen=True):
    forks: int = 0
    children: int = 0  # number of processes that still run after the task
    printed_bytes: int = 0
    error: str = ""


class RepeatedRuns(msgspec.Struct, frozen=True):
    """The fastest of several runs, and the number of different results."""

    wall_s: float = 0.0
    cpu_s: float = 0.0  # CPU time of all threads of the process
    runs: int = 0
    answers: int = 0
    error: str = ""


class Yields(msgspec.Struct, frozen=True):
    yields: int = 0
    waits: int = 0  # number of yields that wait for something
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
    costs_s: float = 0.0  # time to send the task and the result
    start_s: float = 0.0  # time of the first run, including the start of the worker
    sent_bytes: int = 0
    error: str = ""


class TaskProfile(msgspec.Struct, frozen=True, kw_only=True):
    task: str
    python: str
    free_threaded: bool
    cpus: int | float  # such as 0.5 with a cgroup quota
    missing: list[str] = []  # packages unavailable for this Python
    stopped: str = ""  # reason why later steps were not reached
    alone: FirstRun | None = None
    effects: SideEffects | None = None
    again: RepeatedRuns | None = None
    yields: Yields | None = None
    threads: ThreadRuns | None = None
    machine: OtherPrograms | None = None
    process: WorkerRun | None = None
    interpreter: WorkerRun | None = None


def profile_task(
    task: str, python: Interpreter, limit_s: float, tell: Callable[[str], None]
) -> tuple[TaskProfile | None, int | None]:
    """Profile a task; return the profile, and the signal that stopped the profiler. Either may be None.

    Args:
        limit_s: timeout of the first run; it also limits the timeouts of later steps.
        tell: called with progress messages.

    Raises:
        BadInputError: there is no such task, or it can't be called with these arguments.
    """
    profiles: list[TaskProfile] = []

    async def profile() -> None:
        profiles.append(await _profile(task, await with_packages(python, tell), limit_s))

    stopped_by = until_signal(profile())
    return (profiles[0] if profiles else None), stopped_by


async def _profile(task: str, python: Interpreter, limit_s: float) -> TaskProfile:
    steps = dict[str, Any]()
    stopped = ""
    timeout_s = limit_s

    def has_progressed() -> bool:
        return profiler.process.ended() or len(steps) > known

    command = [python.path, *script("task_profiler", task=task)]
    async with helper(command, lambda step: steps.update([step])) as profiler:
        while "done" not in steps and not profiler.process.ended():
            known = len(steps)
            if steps:
                longest_run_s = min(limit_s, _MOST_SLOWDOWN * steps["alone"].get("wall_s", 0.0))
                timeout_s = max(_SHORTEST_TIMEOUT_S, longest_run_s * _RUNS_OF_A_STEP)
            if not await until(has_progressed, timeout_s, LOOK_S):
                stopped = f"{_next(steps)} did not end within {timeout_s:g} s, so the profiler was stopped"
                break
    if profiler.error:
        raise BadInputError(profiler.error)
    if not stopped and "done" not in steps:
        error = final_line(profiler.errors.text())
        stopped = f"it terminated the process during {_next(steps)}{f': {error}' if error else ''}"
    profile = {name: step for name, step in steps.items() if name in _STEPS} | {
        "task": task,
        "python": python.version,
        "free_threaded": python.version.split()[0].endswith("t"),
        "cpus": cpu_limit(),
        "missing": [package for package, _ in python.missing],
        "stopped": stopped,
    }
    return made_legible(msgspec.convert(profile, TaskProfile))


def _next(steps: dict[str, Any]) -> str:
    return next((description for name, description in _STEPS.items() if name not in steps), "the last step")
