"""The command, called within the process of the tests, where what is slow to import is imported once."""

import gc
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from under_siege.cli import bench

WIDTH = 78  # of help, as click has it in a terminal of 80 columns


@dataclass(frozen=True)
class Ended:
    """What was left of a call, as of a process."""

    returncode: int
    stdout: str
    stderr: str


def called(*words: str, folder: Path | None = None, env: dict[str, str] | None = None, charset: str = "utf-8") -> Ended:
    """Runs `bench.py` with these words, in that folder or the current one, on a terminal that knows that charset."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder or Path.cwd())
        patched.setattr("under_siege.cli.COMMAND", ["bench.py", *words])
        for name, value in (env or {}).items():
            patched.setenv(name, value)
        try:
            ended = CliRunner(charset=charset).invoke(
                bench, words, prog_name="bench.py", terminal_width=WIDTH, catch_exceptions=False
            )
        finally:
            gc.enable()  # some commands do without, because their process ends with them
    return Ended(ended.exit_code, ended.stdout, ended.stderr)
