"""Run bench.py in the pytest process, which has already imported the packages that are slow to import."""

import gc
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from under_siege.cli import bench

WIDTH = 78  # width of help texts that click prints on 80 columns


@dataclass(frozen=True)
class CommandResult:
    """The exit code and the output of a command."""

    returncode: int
    stdout: str
    stderr: str


def invoke(
    *words: str, folder: Path | None = None, env: dict[str, str] | None = None, charset: str = "utf-8"
) -> CommandResult:
    """Run `bench.py` with these arguments in `folder` (default: current directory); encode the output in `charset`."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder or Path.cwd())
        patched.setattr("sys.argv", ["bench.py", *words])
        for name, value in (env or {}).items():
            patched.setenv(name, value)
        try:
            ended = CliRunner(charset=charset).invoke(
                bench, words, prog_name="bench.py", terminal_width=WIDTH, catch_exceptions=False
            )
        finally:
            gc.enable()  # some commands disable garbage collection, because their process usually ends soon
    return CommandResult(ended.exit_code, ended.stdout, ended.stderr)
