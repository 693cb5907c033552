"""Trying a task without any server, in a process that is ended if a step takes too long."""

import json
import os
from collections.abc import Callable
from tempfile import TemporaryFile
from typing import Any

import msgspec

from common.cpus import usable_cpus
from common.errors import BadInputError
from under_siege.environments.venvs import with_packages
from under_siege.model.result_file import made_legible
from under_siege.model.task_profile import TaskProfile
from under_siege.paths import script, server_environment
from under_siege.processes.managed_process import LOOK_S, ManagedProcess, until, until_signal
from under_siege.processes.process_output import Tail
from under_siege.targets.interpreter import Interpreter

_RUNS_OF_A_STEP, _SLOWER, _LEAST_S = 12, 4, 5.0  # no step performs the task more often; slower than alone by so much
MOST_BYTES = 1_000_000  # of all steps together; an answer is shortened
_STEPS = {
    "alone": "performing it once",
    "effects": "looking what it left behind",
    "again": "performing it again",
    "yields": "looking how it gives way",
    "threads": "performing it in two threads at once",
    "machine": "looking what else the machine does",
    "process": "performing it in another process",
    "interpreter": "performing it in a sub-interpreter",
}


def profile_task(
    task: str, python: Interpreter, limit_s: float, tell: Callable[[str], None]
) -> tuple[TaskProfile | None, int | None]:
    """What can be said of the task, and the number of the signal that stopped it or None."""
    found: list[TaskProfile] = []

    async def go() -> None:
        found.append(await try_out(task, await with_packages(python, tell), limit_s))

    stopped_by = until_signal(go())
    return (found[0] if found else None), stopped_by


async def try_out(task: str, python: Interpreter, limit_s: float) -> TaskProfile:
    """What can be said of the task; its first run may take as long as the limit, the later steps in proportion.

    Raises:
        BadInputError: it can't be called like that.
    """
    with TemporaryFile() as output:
        command = [python.path, *script("task_profiler"), task]
        started = ManagedProcess(command, environment=server_environment(), stdout=output)
        errors = Tail(started.process.stderr)
        try:
            steps, stopped = await _follow(started, output, limit_s)
        finally:
            await started.stop()
    if steps.get("alone", {}).get("bad_call"):
        raise BadInputError(steps["alone"]["error"])
    if not stopped and "done" not in steps:
        last = [line for line in errors.text().splitlines() if line.strip()]
        stopped = f"it ended the process while {_next(steps)}{f': {last[-1]}' if last else ''}"
    known = {name: found for name, found in steps.items() if name in _STEPS}
    findings = msgspec.convert(
        {
            "task": task,
            "python": python.version,
            "free_threaded": python.version.split()[0].endswith("t"),
            "cpus": usable_cpus(),
            "missing": [package for package, _ in python.missing],
            "stopped": stopped,
            **known,
        },
        TaskProfile,
    )
    return made_legible(findings)


async def _follow(started: ManagedProcess, output: Any, limit_s: float) -> tuple[dict[str, Any], str]:
    """The steps as far as they came, and why not all of them."""
    steps: dict[str, Any] = {}
    while "done" not in steps:
        count = len(steps)

        def moved(count: int = count) -> bool:
            return started.ended() or len(_read(output)) > count

        patience_s = limit_s
        if count:
            alone_s = steps["alone"].get("wall_s", 0.0)
            patience_s = max(_LEAST_S, min(limit_s, _SLOWER * alone_s) * _RUNS_OF_A_STEP)
        in_time = await until(moved, patience_s, LOOK_S)
        steps = _read(output)
        if not in_time:
            return steps, f"{_next(steps)} did not end within {patience_s:g} s: it was stopped"
        if started.ended():
            break
    return steps, ""


def _read(output: Any) -> dict[str, Any]:
    # Not seek and read: the place in the file is shared with the process that is still writing there.
    lines = os.pread(output.fileno(), MOST_BYTES, 0).decode(errors="replace").splitlines(keepends=True)
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return {step.pop("step"): step for step in found}


def _next(steps: dict[str, Any]) -> str:
    return next((told for name, told in _STEPS.items() if name not in steps), "ending")
