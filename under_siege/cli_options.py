"""Define option types, common options, and one-line errors for all commands."""

import contextlib
import functools
import io
import os
import pkgutil
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

from common.errors import BadInputError
from common.options import MOST_WORKERS
from common.task import BUILTIN_TASKS
from under_siege.formatting import legible
from under_siege.host.user_scope import RestartError, restart
from under_siege.paths import IS_INSTALLED, PROGRAM, USERS
from under_siege.record.files import check_writable, is_pipe
from under_siege.secrets import masked

if TYPE_CHECKING:
    from under_siege.measure.session import Reporting
    from under_siege.record.result import Result
    from under_siege.show.view import View
    from under_siege.suite.suite_from_application import TargetOptions

FILE = click.Path(path_type=Path)
COMMANDS = {  # the groups in --help
    "Measure": ("run", "capacity", "drill", "trace", "profile", "try"),
    "Show results": ("report", "compare"),
    "Learn": ("lesson", "lesson check", "list"),
    "Set up": ("init", "doctor"),
}
OLD_NAMES = {"anyway": "force", "keep-environment": "use-my-server-config"}  # still accepted
TASK = f"{', '.join(BUILTIN_TASKS)}, module:function or module:function('acme', 3)."
HEADER = "Header of all requests and pings."
PATH = "Path that users request.  [default: a route without parameters]"
METHOD = "GET, POST, PUT, PATCH or DELETE.  [default: GET, or POST with --body]"
BODY = "Body of the requests."
STATUS = "Status of a correct response, such as 201."
IGNORE = "Field of JSON responses that may differ, such as token or items.*.id."
ANY_BODY = "Check only the status of responses, not their bodies."
SETUP = "Request of each user before the load, such as 'POST /login user=ann&pin=7'."
PING = "Path of the health check."
STREAM = "Read responses event by event: sse, lines or chunks."
EVENTS = "Close streams after so many events, or this time."
FIRST = "Which events count: a path of a JSON value that is not empty, such as choices.0.delta.content, or /REGEX/."
WIDE = "Show all columns, including workers and CPU time."
REQUIRE = 'Requirement, such as "ping p99 < 50ms" or "rate >= 30/s".'
TOLERANCE = "How much worse a metric may get, such as 5%; only a significantly larger change counts."
READY_WITHIN = "Longest start of a server, such as 60s.  [default: depends on the import of the application]"
CPUS = "CPU quota of each server with all its processes, such as 0.5."
MEMORY = "Memory limit of each server with all its processes, such as 512MB."
SERVER_CONFIG = "Measure with gunicorn.conf.py, GUNICORN_CMD_ARGS, WEB_CONCURRENCY, UVICORN_* and GRANIAN_*."
PYTHON = "Python that runs the servers.  [default: this one, or that of the application]"
WORKERS = "Threads or processes of a pool or server, such as 2; auto: find the best number."
STRATEGIES = ("as-is", "threads", "processes", "none")
STRATEGY = "Where an application runs the route: as-is, threads, processes; none: compare only servers."
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
TRACED_REQUESTS = 8
Command = TypeVar("Command", bound=Callable[..., Any])


GROUPS = {  # heading in --help → options by their parameters
    "What to measure": (
        *("task", "workers", "python", "cpus", "memory", "strategies", "quick", "keep_environment", "ready_within"),
        *("against", "copied"),
    ),
    "Requests to an application or a URL": (
        *("path", "method", "body", "headers", "setup", "ping", "stream", "events", "first"),
        *("status", "ignored", "any_body"),
    ),
    "Load": ("users", "requests", "pause", "arrivals", "rate", "style", "time_s", "rounds", "seed", "faults"),
    "Decision": ("wanted", "goals", "tolerance"),
    "Output": ("out", "html", "wide", "traced", "side_by_side", "step", "quiet", "_click_default_help"),
}


class Documented(click.Command):
    """A command whose help shows examples, says which options may be repeated, and groups those for targets.

    Args:
        examples: arguments of the program, each with its meaning.
    """

    def __init__(self, *args: Any, examples: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Show the examples, and list the options, those of commands with targets in the groups of `GROUPS`."""
        format_examples(formatter, self.examples)
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        records = {each.name: record for each in options if (record := _help_record(each, ctx))}
        headings = GROUPS if "task" in records else {}
        groups = {
            heading: [records.pop(name) for name in names if name in records] for heading, names in headings.items()
        }
        for heading, rows in {**groups, "Options": list(records.values())}.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


def _help_record(option: click.Option, ctx: click.Context) -> tuple[str, str] | None:
    """Return the names of an option and its help."""
    if not (record := option.get_help_record(ctx)) or not option.multiple:
        return record
    text, brackets, default = record[1].partition("  [")
    return record[0], f"{text.removesuffix('.')}; may be repeated.{brackets}{default}"


def format_examples(formatter: click.HelpFormatter, examples: Mapping[str, str]) -> None:
    """Write commands with their meanings, in two columns."""
    width = max(map(len, examples))
    with formatter.section("Examples"):
        for arguments, meaning in examples.items():
            formatter.write(f"{'':{formatter.current_indent}}{PROGRAM} {arguments:{width}}  {meaning}\n")


class OneLineErrors(click.Group):
    """A command group that accepts `-h` for help, prints each error as one line on stderr, and then exits with code 2.

    Args:
        elsewhere: names of commands, each with its `module:function`, which is imported only when needed.
        examples: arguments of the program, each with its meaning.
    """

    command_class = Documented

    def __init__(self, *args: Any, elsewhere: Mapping[str, str], examples: Mapping[str, str], **kwargs: Any) -> None:
        settings = {
            "help_option_names": ["-h", "--help"],
            "show_default": True,
            "token_normalize_func": lambda name: OLD_NAMES.get(name, name),
        }
        super().__init__(*args, context_settings=settings, **kwargs)
        self._elsewhere, self.examples = elsewhere, examples

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands of one word."""
        return sorted(name for name in [*super().list_commands(ctx), *self._elsewhere] if " " not in name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name, the command and its arguments; the name may have two words, such as `lesson check`."""
        two_words = " ".join(args[:2])
        return super().resolve_command(ctx, [two_words, *args[2:]] if two_words in self._elsewhere else args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands in groups, with one sentence each, and show the examples."""
        for heading, names in COMMANDS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl([(name, command.get_short_help_str(60)) for name, command in commands if command])
        format_examples(formatter, self.examples)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with this name; if needed, import its module first."""
        if cmd_name not in self._elsewhere:
            return super().get_command(ctx, cmd_name)
        command: click.Command = pkgutil.resolve_name(self._elsewhere[cmd_name])
        return command

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the command and exit."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")  # an ASCII terminal can't encode every character
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
            print_error(missing_package(error))
            code = 2
        except RestartError:
            _discard_unwritable_output()
            restart()
        except (click.Abort, KeyboardInterrupt):
            code = 130
        except BrokenPipeError:  # as in `bench.py list | head -1`
            code = 1
        except OSError as error:  # as in `bench.py list > /dev/full`
            print_error(" ".join(filter(None, [error.filename and f"{error.filename}:", error.strerror or str(error)])))
            code = 2
        _discard_unwritable_output()
        sys.exit(code if isinstance(code, int) else 0)


@contextlib.contextmanager
def one_line_read_errors(*files: Path) -> Iterator[None]:
    """Convert unexpected errors into a one-line BadInputError while result files are processed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning from numpy would be an extra line on stderr
            yield
    except BadInputError:
        raise
    except (ArithmeticError, LookupError, ValueError, TypeError, AssertionError, MemoryError, RecursionError) as error:
        names = " and ".join(map(str, files))
        raise BadInputError(
            f"can't read {names}: {type(error).__name__}: {error}; if {PROGRAM} run wrote the file, please report this"
        ) from None


def print_error(message: str) -> None:
    """Print a message as one line on stderr; do nothing if stderr can't be written to."""
    with contextlib.suppress(OSError):
        click.echo(f"{PROGRAM}: {legible(masked(message))}", err=True)


def missing_package(error: ModuleNotFoundError) -> str:
    """Return the error message for an interpreter that lacks a package that the bench needs."""
    remedy = "install under-siege again" if IS_INSTALLED else f"run ./scripts/setup, then .venv/bin/python {PROGRAM}"
    return f"this Python ({sys.executable}) lacks the package {error.name}; {remedy}"


def _discard_unwritable_output() -> None:
    """Discard output that can't be written, because Python would retry at exit and print a traceback."""
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
    """A click type for durations such as `4s`, `500ms` or `2m`, which are converted to seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert a duration, which must be more than 0 and at most a day, to seconds."""
        from under_siege.load.request import parse_time_s  # loads msgspec, which --help does not need

        if (time_s := parse_time_s(str(value))) is None:
            self.fail(f"{value!r} is not a duration: use for example 4s, 500ms or 2m", param, ctx)
        return time_s


class Percentage(click.ParamType[float]):
    """A click type for percentages such as `5%`, which are converted to fractions."""

    name = "percentage"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert a percentage, which must be at least 0 % and less than 100 %, to a fraction."""
        if not (match := re.fullmatch(r"(\d{1,2}(?:\.\d+)?) ?%", str(value), re.ASCII)):
            self.fail(f"{value!r} is not a percentage below 100 %: use for example 5%", param, ctx)
        return float(match[1]) / 100


class SiegeTime(Duration):
    """A click type like `Duration` that also accepts `auto`, which becomes None."""

    name = "duration|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float | None:  # type: ignore[override]
        """Convert a duration to seconds, or `auto` to None."""
        return None if value in ("auto", None) else super().convert(value, param, ctx)


class Rounds(click.ParamType[int | None]):
    """A click type for a number of rounds that also accepts `auto`, which becomes None."""

    name = "number|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        """Convert a number of rounds, which must be at least 1, to an int, or `auto` to None."""
        if value == "auto":
            return None
        if not str(value).isdecimal() or int(value) < 1:
            self.fail(f"{value!r} is not a number of rounds: use 1, 2, 3 ... or auto", param, ctx)
        return int(value)


class Workers(click.ParamType[int | str]):
    """A click type for a number of workers that also accepts `auto`."""

    name = "number|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        """Convert a number of workers to an int, and return `auto` unchanged."""
        if value == "auto":
            return "auto"
        if not str(value).isdecimal() or not 1 <= int(value) <= MOST_WORKERS:
            self.fail(f"{value!r} is not a number of workers: use 1 to {MOST_WORKERS}, or auto", param, ctx)
        return int(value)


@dataclass(frozen=True, slots=True)
class CommonOptions:
    """The options that `run`, `drill` and `capacity` share."""

    target: "TargetOptions"
    seed: int | None
    out: Path | None
    html: Path | None
    quiet: bool
    axes: dict[str, tuple[str | int, ...]]

    @contextlib.contextmanager
    def files(self) -> Iterator[tuple[Path, Path | None]]:
        """Yield the files for the raw values and, if wanted, the page; raise BadInputError if one is unwritable."""
        page = writable(self.html) if self.html else None
        with contextlib.nullcontext(self.out) if self.out else default_result() as out:
            yield writable(out, is_rewritten=True), page


_AXES = ("task", "users", "workers", "python", "cpus", "memory", "pause", "arrivals")


def target_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add TARGET, the axes and the options of an application to a command; pass the latter as `target`."""

    @functools.wraps(command)
    def with_target_options(**rest: Any) -> None:
        from under_siege.suite.suite_from_application import TargetOptions  # loads packages that --help does not need

        given = {each.name: rest.pop(each.name) for each in fields(TargetOptions) if each.name in rest}
        tell = _ignored if rest.get("quiet") else print_error
        command(target=TargetOptions(pythons=rest["python"], tell=tell, **given), **rest)

    return _with(
        with_target_options,
        click.argument("servers", metavar="[TARGET]...", nargs=-1, shell_complete=_complete_target),
        click.option("--task", metavar="TASK", multiple=True, help=TASK, show_default="primes"),
        click.option("--workers", type=Workers(), metavar="N|auto", multiple=True, help=WORKERS),
        click.option("--python", metavar="PATH", multiple=True, help=PYTHON),
        click.option("--cpus", metavar="N", type=float, multiple=True, help=CPUS),
        click.option("--memory", metavar="SIZE", multiple=True, help=MEMORY),
        request_options,
        click.option("--ping", metavar="PATH", help=PING),
        click.option("--stream", type=click.Choice(["sse", "lines", "chunks"]), metavar="KIND", help=STREAM),
        click.option("--events", metavar="N|TIME", help=EVENTS),
        click.option("--first", metavar="PATH|/REGEX/", help=FIRST),
        click.option("--header", "headers", multiple=True, metavar="NAME:VALUE", help=HEADER),
        click.option("--status", type=click.IntRange(200, 599), metavar="CODE", help=STATUS, show_default="200"),
        click.option("--ignore", "ignored", multiple=True, metavar="FIELD", help=IGNORE),
        click.option("--any-body", is_flag=True, help=ANY_BODY),
        click.option("--setup", multiple=True, metavar="REQUEST", help=SETUP),
        click.option("--use-my-server-config", "keep_environment", is_flag=True, help=SERVER_CONFIG),
        click.option(
            "--strategy", "strategies", type=click.Choice(STRATEGIES), metavar="NAME", multiple=True, help=STRATEGY
        ),
    )


def _complete_target(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the strategies whose name or number begins like this, and let the shell complete files."""
    from under_siege.suite.server_files import all_strategies

    found = [each for each in all_strategies() if each.name.startswith(incomplete)]
    return [*(CompletionItem(each.name, help=each.title) for each in found), CompletionItem(incomplete, type="file")]


def request_options(command: Command) -> Command:
    """Add the options that choose the request to an application, and how long it may take to start."""
    return _with(
        command,
        click.option("--path", metavar="PATH", help=PATH),
        click.option("--method", type=click.Choice(METHODS), metavar="METHOD", help=METHOD),
        click.option("--body", metavar="JSON", help=BODY),
        click.option("--ready-within", metavar="TIME", help=READY_WITHIN),
    )


def _ignored(_message: str) -> None:
    """Do nothing."""


def users_option(command: Command) -> Command:
    """Add --users, which may be repeated, to a command."""
    usual = f"{USERS}, or fewer for a long task"
    return click.option(
        "-u",
        "--users",
        metavar="N",
        type=click.IntRange(1),
        multiple=True,
        help="Concurrent users.",
        show_default=usual,
    )(command)


def time_option(kind: click.ParamType[Any], default: str, text: str) -> Callable[[Command], Command]:
    """Return a decorator that adds --time to a command."""
    return click.option("-t", "--time", "time_s", metavar="TIME", type=kind, default=default, help=text)


def out_option(text: str, **settings: Any) -> Callable[[Command], Command]:
    """Return a decorator that adds --out to a command; the help begins with what is written."""
    return click.option("-o", "--out", metavar="FILE", type=FILE, help=text, **settings)


quiet_option = click.option("-q", "--quiet", is_flag=True, help="Don't show progress.")


def command_line() -> list[str]:
    """Return the words with which the user called this program."""
    return [Path(sys.argv[0]).name, *sys.argv[1:]]


def exit_with(exit_code: int, stopped_by: int | None) -> NoReturn:
    """Exit with 128 plus the number of the signal that stopped a measurement or, without a signal, with `exit_code`."""
    sys.exit(128 + stopped_by if stopped_by else exit_code)


def measuring_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --seed, --out, --html and --quiet; pass them as `options`, together with the axes and `target`."""

    @functools.wraps(command)
    def with_common_options(
        *, target: "TargetOptions", seed: int, out: Path, html: Path, quiet: bool, **rest: Any
    ) -> None:
        axes = {name: rest.pop(name) for name in _AXES if name in rest}
        command(options=CommonOptions(target, seed, out, html, quiet, axes), **rest)

    return _with(
        with_common_options,
        click.option(
            "--seed", metavar="N", type=click.IntRange(min=0), help="Seed of an earlier run, to repeat its order."
        ),
        out_option("Raw values (.json, .json.gz).  [default: results/<UTC time>.json]"),
        click.option("--html", metavar="FILE", type=FILE, help="Report: a page with the table and charts."),
        quiet_option,
    )


def measure_and_show(
    count: int,
    measure: Callable[["Reporting"], tuple["Result", int | None, bool]],
    options: CommonOptions,
    load_views: Callable[[], Callable[["Result"], Sequence["View"]]],
    *,
    wide: bool = False,
) -> NoReturn:
    """Measure, show the result, and exit with the exit code of the result.

    Args:
        count: the approximate number of measurements, for the progress bar.
        load_views: imports and returns what turns the result into views: the main one first, which has the exit code.
    """
    from under_siege.measure.session import Reporting
    from under_siege.show.progress_bar import ProgressBar

    with options.files() as (out, page), ProgressBar(count, quiet=options.quiet) as progress:
        # The import of the views is slow, so it runs in parallel with the preparations.
        result, stopped_by, is_saved = measure(Reporting(out, progress, command_line(), load_views))
    from under_siege.show.output import show_measured

    views = load_views()(result)
    if result.records or result.incidents or result.steps:
        show_measured(views, out if is_saved else None, page, wide=wide)
    exit_with(views[0].exit_code, stopped_by)


def _with(command: Command, *options: Callable[[Command], Command]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


@contextlib.contextmanager
def default_result() -> Iterator[Path]:
    """Yield `results/<UTC time>.json` below the current directory; create `results` while it is needed."""
    directory = Path("results")
    is_new = not directory.exists()
    try:
        directory.mkdir(exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError as error:
        raise BadInputError(f"can't write to the folder 'results': {error.strerror}; use --out FILE") from None
    now = datetime.now(UTC)  # with milliseconds, because two runs may begin in the same second
    try:
        yield directory / f"{now:%Y-%m-%dT%H-%M-%S}.{now.microsecond // 1000:03d}Z.json"
    finally:
        if is_new:
            with contextlib.suppress(OSError):  # it contains a result
                directory.rmdir()


def writable(path: Path, *, is_rewritten: bool = False) -> Path:
    """Check that a file can be written, and return its path.

    Args:
        is_rewritten: whether the file will be written more than once.

    Raises:
        BadInputError: the file can't be written, or it is a pipe and would be rewritten.
    """
    if path.is_dir():
        raise BadInputError(f"{str(path)!r} is a folder; expected a file")
    if is_rewritten and is_pipe(path):
        raise BadInputError(f"{str(path)!r} is a pipe; expected a file, because it is rewritten at the end")
    check_writable(path)
    return path


PICTURES = ["timeline", "profile", "throughput", "pings", "streams", "tradeoff", "moments", "memory", "cpu", "heatmap"]
PICTURES += ["capacity", "processes"]
ONE_PICTURE = (
    f"Draw one chart (.svg or .png): {', '.join(PICTURES)}, or a metric for each number of users or the like, such as "
    "rate-sweep."
)


class LazyChoice(click.Choice[str]):
    """A choice from names that a function imports only when they are needed, because the import is slow."""

    def __init__(self, names: Callable[[], Sequence[str]]) -> None:
        self._names, self.case_sensitive = names, True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self._names())


def picture_names() -> Sequence[str]:
    from under_siege.judge.metrics import METRICS

    return [*PICTURES, *(f"{metric.chart_name}-sweep" for metric in METRICS.values() if metric.chart_name)]
