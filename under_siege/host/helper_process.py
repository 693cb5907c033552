"""Run the modules of `subprocess_scripts`, which get their arguments as a JSON object and report in lines of JSON."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from under_siege.host.managed_process import ManagedProcess, Tail, final_line, how_it_ended, reading_lines
from under_siege.paths import server_environment

LONGEST_VALUE_BYTES = 64_000_000  # maximum length of a line, which may contain the answer of a task


class HelperError(Exception):
    """The script has reported, in one line, why it fails."""


class HelperDiedError(HelperError):
    """The process has ended without a report; the text is the last line of its stderr, or how it ended."""


class Helper:
    """A process that runs a script; `take` gets each value that it reports, and `errors` its stderr.

    `error` is the text of the last value, if that has the form `{"error": text}`.
    """

    def __init__(self, process: ManagedProcess, take: Callable[[Any], None]) -> None:
        self.process, self.errors = process, Tail(process.stderr)
        self.error = ""
        self._take = take

    def read(self, line: str, _arrived_s: float) -> None:
        """Decode a line of output; ignore what a Python prints before the script begins."""
        try:
            value = msgspec.json.decode(line)
        except msgspec.DecodeError:
            return
        if isinstance(value, dict) and value.keys() == {"error"}:
            self.error = value["error"]
        else:
            self._take(value)

    async def send(self, line: bytes) -> None:
        """Write a line to the script; raise OSError if it has ended."""
        stdin: IO[bytes] = self.process.stdin
        await asyncio.to_thread(stdin.write, line)
        await asyncio.to_thread(stdin.flush)

    def end_input(self) -> None:
        self.process.stdin.close()

    async def failure(self) -> HelperError:
        """Return why the process has ended."""
        await self.errors.read_to_end()
        if self.error:
            return HelperError(self.error)
        return HelperDiedError(final_line(self.errors.text()) or f"it {how_it_ended(self.process.reap())}")


@contextlib.asynccontextmanager
async def helper(
    command: Sequence[str],
    take: Callable[[Any], None],
    *,
    reads_lines: bool = False,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    may_hide: bool = True,
    is_load: bool = False,
) -> AsyncIterator[Helper]:
    """Run a script while the context is active."""
    process = ManagedProcess(
        command,
        environment=server_environment() if environment is None else environment,
        stdin=subprocess.PIPE if reads_lines else subprocess.DEVNULL,
        folder=folder,
        may_hide=may_hide,
        is_load=is_load,
    )
    try:
        running = Helper(process, take)
        assert process.stdout is not None
        with reading_lines(process.stdout.fileno(), running.read, LONGEST_VALUE_BYTES) as read_the_rest:
            yield running
            read_the_rest()
    finally:
        await process.stop(grace_s=0)


async def answer(
    command: Sequence[str],
    limit_s: float,
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Any:
    """Run a script to its end, and return the value that it reports.

    Raises:
        HelperError: the script reported an error, or ended without a value.
        TimeoutError: it did not end in time.
        OSError: it can't be started.
    """
    values: list[Any] = []
    async with helper(command, values.append, environment=environment, folder=folder) as running:
        if not await running.process.wait(limit_s):
            raise TimeoutError
    if not values:
        raise await running.failure()
    return values[-1]
