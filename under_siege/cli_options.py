"""Shared by all commands: option types, common options, and one-line errors."""

import contextlib
import functools
import importlib
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from common.errors import BadInputError
from common.server_contract import MOST_WORKERS
from under_siege.model.result_file import check_writable, is_pipe, legible
from under_siege.paths import IS_INSTALLED, PROGRAM

FILE = click.Path(path_type=Path)
COMMANDS = {  # as --help shows them
    "Measure": ("run", "capacity", "drill", "trace", "try"),
    "Show results": ("report", "compare"),
    "Learn": ("lesson", "list"),
    "Set up": ("init", "doctor"),
}
EXAMPLES = f"""Examples:

\b
  {PROGRAM} run                      compare all strategies
  {PROGRAM} run 2 4 --task mod:func  compare two of them with your own task
  {PROGRAM} init app:app             write a suite for your own application
  {PROGRAM} run suite.toml           and compare its servers
"""
TASK = "primes, digest, sign_up, module:function, or module:function('acme', 3); may be repeated."
WORKERS = click.IntRange(1, MOST_WORKERS)
Command = TypeVar("Command", bound=Callable[..., Any])


class OneLineErrors(click.Group):
    """A group whose errors are one line on stderr and exit code 2; -h is help.

    Args:
        elsewhere: the names of further commands, and the modules that each is in under its name.
    """

    def __init__(self, *args: Any, elsewhere: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(
            *args, **{"context_settings": {"help_option_names": ["-h", "--help"], "show_default": True}, **kwargs}
        )
        self._elsewhere = elsewhere or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return sorted([*super().list_commands(ctx), *self._elsewhere])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in groups, with one sentence each."""
        for heading, names in COMMANDS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(name, command.get_short_help_str(60)) for name, command in commands if command])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported if it is elsewhere."""
        if cmd_name not in self._elsewhere:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(importlib.import_module(self._elsewhere[cmd_name]), cmd_name)
        return command

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the command and exits."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # a terminal that knows ASCII only gets what it can show
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
            if sys.stdout is not None:
                sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            code = 2
        except (click.ClickException, BadInputError) as error:
            print_error(_one_line(error))
            code = 2
        except ModuleNotFoundError as error:
            print_error(missing(error))
            code = 2
        except (click.Abort, KeyboardInterrupt):
            code = 130
        except BrokenPipeError:  # as in `bench.py list | head -1`
            code = 1
        except OSError as error:  # as in `bench.py list > /dev/full`
            print_error(" ".join(filter(None, [error.filename and f"{error.filename}:", error.strerror or str(error)])))
            code = 2
        _forget_what_can_not_be_written()
        sys.exit(code if isinstance(code, int) else 0)


@contextlib.contextmanager
def telling_of(*files: Path) -> Iterator[None]:
    """Turn unexpected errors in a result file into one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy, which says in lines of its own what it can't compute
            yield
    except BadInputError:
        raise
    except (ArithmeticError, LookupError, ValueError, TypeError, AssertionError, MemoryError, RecursionError) as error:
        names = " and ".join(map(str, files))
        raise BadInputError(
            f"can't read {names}: {type(error).__name__}: {error}; if {PROGRAM} run wrote the file, please report this"
        ) from None


def print_error(message: str) -> None:
    """Print one line on stderr, if that can be written."""
    with contextlib.suppress(OSError):
        click.echo(f"{PROGRAM}: {legible(message)}", err=True)


def missing(error: ModuleNotFoundError) -> str:
    """Return the error for an interpreter without our packages."""
    how = "install under-siege again" if IS_INSTALLED else f"run ./scripts/setup, then .venv/bin/python {PROGRAM}"
    return f"this Python ({sys.executable}) has no {error.name}; {how}"


def _forget_what_can_not_be_written() -> None:
    """Drop unwritten output: else Python tries again when it exits, and prints a traceback."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _one_line(error: Exception) -> str:
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    hint = f" (try {error.ctx.command_path} --help)" if isinstance(error, click.UsageError) and error.ctx else ""
    return " ".join(text.split()) + hint


class Duration(click.ParamType[float]):
    """A time in seconds from text such as `4s`, `500ms` or `2m`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds: more than 0, at most a day."""
        from under_siege.model.suite import parse_time_s  # loads msgspec, which --help does not need

        if (found := parse_time_s(str(value))) is None:
            self.fail(f"{value!r} is not a duration: use for example 4s, 500ms or 2m", param, ctx)
        return found


class SiegeTime(Duration):
    """A duration; `auto` becomes None."""

    name = "duration|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:  # type: ignore[override]
        """The seconds."""
        return None if value in ("auto", None) else super().convert(value, param, ctx)


class Rounds(click.ParamType[int | None]):
    """A number of rounds; `auto` becomes None."""

    name = "number|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """The number, at least 1."""
        if value == "auto":
            return None
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{value!r} is not a number of rounds: use 1, 2, 3 ... or auto", param, ctx)
        return int(value)


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """The options that all measuring commands share."""

    ping: str | None
    seed: int | None
    out: Path | None
    html: Path | None
    quiet: bool
    axes: dict[str, tuple[str | int, ...]]

    def files(self) -> tuple[Path, Path | None]:
        """Return the files for raw values and for the page, if there is one; raise BadInputError if not writable."""
        page = writable(self.html) if self.html else None
        return writable(self.out or default_result(), again_and_again=True), page


_AXES = ("task", "users", "workers", "python")


def as_for_run(command: Command) -> Command:
    """Add TARGET, --task, --workers, --python and --ping."""
    return _with(
        command,
        click.argument("servers", metavar="[TARGET]...", nargs=-1),
        click.option("--task", multiple=True, help=TASK, show_default="primes"),
        click.option("--workers", type=WORKERS, multiple=True, help="Threads or processes of strategies with a pool."),
        python_option,
        click.option("--ping", help="Health-check path of a server given by its URL."),
    )


def python_option(command: Command) -> Command:
    """Add --python, which may be repeated."""
    text, here = "Path of the Python that runs the servers.", "this one"
    return click.option("--python", multiple=True, default=[sys.executable], show_default=here, help=text)(command)


def measuring(command: Callable[..., None]) -> Callable[..., None]:
    """Add --seed, --out, --html and --quiet; pass them as `given`, together with the axes and the ping."""

    @functools.wraps(command)
    def told(*, ping: str, seed: int, out: Path, html: Path, quiet: bool, **rest: Any) -> None:
        axes = {name: rest.pop(name) for name in _AXES if name in rest}
        command(given=CommonOptions(ping, seed, out, html, quiet, axes), **rest)

    return _with(
        told,
        click.option("--seed", type=click.IntRange(min=0), help="Repeat the order of an earlier run."),
        click.option("--out", type=FILE, help="File for raw values.  [default: results/<UTC time>.json]"),
        click.option("--html", type=FILE, help="Write a page with the table and charts, in one file."),
        click.option("--quiet", is_flag=True, help="Don't show progress."),
    )


def _with(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def default_result() -> Path:
    """Return `results/<UTC time>.json` below the current folder, and create the folder."""
    folder = Path("results")
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise BadInputError(f"can't create the folder 'results': {error.strerror}; use --out FILE") from None
    return folder / f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%SZ}.json"


def writable(path: Path, *, again_and_again: bool = False) -> Path:
    """Return the path if it can be written.

    Raises:
        BadInputError: it can't be written, or it is a pipe and would be written more than once.
    """
    if path.is_dir():
        raise BadInputError(f"{str(path)!r} is a folder; expected a file")
    if again_and_again and is_pipe(path):
        raise BadInputError(f"{str(path)!r} is a pipe; expected a file, because it is rewritten after every case")
    check_writable(path)
    return path
