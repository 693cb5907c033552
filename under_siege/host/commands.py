"""Run commands to their end, and say in one line why one of them failed."""

import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from common.errors import BadInputError
from under_siege.host.managed_process import GRACE_S, ManagedProcess, Tail
from under_siege.secrets import masked

COMMAND_LIMIT_S = 600.0  # timeout of a command such as an installation
LONGEST_REASON = 400  # maximum number of characters of the reason why a command failed
_ERROR = re.compile(r"error|\b(fatal|panic|could not|can't|cannot)\b", re.IGNORECASE)


class CommandError(BadInputError):
    """A command failed; the text says why, in one line."""


class CompletedRun(NamedTuple):
    """The exit status of a command, or None if it was stopped because it took too long, and its output."""

    status: int | None
    stdout: Tail
    stderr: Tail


def last_problem(output: str) -> str:
    """Return the last line that reports an error or, if no line does, the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if _ERROR.search(line)]
    return (errors or lines or ["it printed nothing"])[-1]


def output_of(
    command: Sequence[str],
    limit_s: float = COMMAND_LIMIT_S,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    reason: Callable[[str], str] = last_problem,
) -> str:
    """Run a command that starts no other processes, and return what it prints to stdout; raise CommandError.

    Args:
        reason: function that extracts the reason for a failure from stderr.
    """
    try:
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            cwd=folder,
            env=environment,
            check=False,
        )
    except OSError as error:
        raise CommandError(f"{command[0]} can't be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise CommandError(f"it took longer than {limit_s:.0f} s") from None
    if run.returncode:
        raise CommandError(masked(reason(run.stderr))[:LONGEST_REASON])
    return run.stdout.strip()


async def run_to_end(
    command: Sequence[str],
    limit_s: float,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    grace_s: float = 0.0,
    may_hide: bool = True,
) -> CompletedRun:
    """Run a command and stop what is left of it; raise OSError if it can't be started."""
    process = ManagedProcess(command, environment=environment or os.environ, folder=folder, may_hide=may_hide)
    stdout, stderr = Tail(process.stdout), Tail(process.stderr)
    try:
        in_time = await process.wait(limit_s)
    finally:
        await process.stop(grace_s)
    await stdout.read_to_end()
    await stderr.read_to_end()
    return CompletedRun(process.returncode if in_time else None, stdout, stderr)


async def run_command(
    command: Sequence[str],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    limit_s: float = COMMAND_LIMIT_S,
    reason: Callable[[str], str] = last_problem,
) -> None:
    """Run a command to its end, with the processes that it starts.

    Args:
        reason: function that extracts the reason for a failure from the output.

    Raises:
        CommandError: the command failed, or took too long.
        OSError: it can't be started.
    """
    run = await run_to_end(command, limit_s, folder=folder, environment=environment, grace_s=GRACE_S)
    if run.status is None:
        raise CommandError(f"it took longer than {limit_s:.0f} s")
    if run.status != 0:
        why = reason(f"{run.stdout.all_kept()}\n{run.stderr.all_kept()}")
        raise CommandError(masked(why)[:LONGEST_REASON])
